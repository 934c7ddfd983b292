"""Settings: TOML, dotted overrides, every mistake reported at once."""

from agentfly.config.import_path import import_named, is_import_path
from agentfly.config.load import Check, Plugins, load_settings
from agentfly.config.page import settings_page
from agentfly.config.plugin_kind import PluginKind
from agentfly.config.settings import (
    AlgorithmSettings,
    CheckpointSettings,
    EngineSettings,
    EnvironmentSettings,
    EvalSettings,
    LoraSettings,
    ModelSettings,
    RolloutSettings,
    RunSettings,
    Settings,
    SourceSettings,
    TrackSettings,
    TrainSettings,
)
from agentfly.config.validation_errors import Problem, SettingsError
from agentfly.config.write import to_toml

__all__ = [
    "AlgorithmSettings",
    "Check",
    "CheckpointSettings",
    "EngineSettings",
    "EnvironmentSettings",
    "EvalSettings",
    "LoraSettings",
    "ModelSettings",
    "PluginKind",
    "Plugins",
    "Problem",
    "RolloutSettings",
    "RunSettings",
    "Settings",
    "SettingsError",
    "SourceSettings",
    "TrackSettings",
    "TrainSettings",
    "import_named",
    "is_import_path",
    "load_settings",
    "settings_page",
    "to_toml",
]
