"""From a model's name to a Hugging Face folder: local folders, the built-in zoo, the hub.

```python
from agentfly.models import resolve_model

resolve_model("smollm2-135m-instruct")   # fetched once, then /home/me/.cache/agentfly/models/...
resolve_model("runs/first/checkpoints/step_20")
resolve_model("Qwen/Qwen3-0.6B")
```

Nothing here imports torch before a model has to be made.
"""

from agentfly.models.loading import context_length, load_model
from agentfly.models.model_cache import Progress, cache_folder, progress_bar
from agentfly.models.zoo import ModelInfo, fetch, list_models, model_info, resolve_model

__all__ = [
    "ModelInfo",
    "Progress",
    "cache_folder",
    "context_length",
    "fetch",
    "list_models",
    "load_model",
    "model_info",
    "progress_bar",
    "resolve_model",
]
