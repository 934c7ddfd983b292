"""Code on Hugging Face modules that engines and learners share.

shared_view         a second tree of modules over the same parameters, or over a copy of them
attention_hooks     parts of attention functions that replace a module's own
"""
