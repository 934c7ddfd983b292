"""What tools and rewards leave in the context's `metadata`."""

import json
import logging
from collections.abc import Mapping
from typing import Any

_log = logging.getLogger(__name__)


def json_values(metadata: Mapping[str, Any], chain_id: str) -> dict[str, Any]:
    """Copy it, with whatever is no JSON value replaced by its `repr`, so that it can be saved."""
    try:
        json.dumps(metadata)
    except (TypeError, ValueError, RecursionError):
        _log.warning("metadata of chain %s holds values that are not JSON", chain_id)
        return {str(key): _json_or_repr(value) for key, value in metadata.items()}
    return dict(metadata)


def _json_or_repr(value: Any) -> Any:
    try:
        json.dumps(value)
    except (TypeError, ValueError, RecursionError):
        return repr(value)
    return value
