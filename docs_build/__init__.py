"""Keep the documentation equal to the code: `make docs-sync` rewrites what `make test` checks."""
