"""Settings of a run: TOML files, dotted overrides, all errors reported at once."""

from agentfly.config.import_path import import_named, is_import_path
from agentfly.config.plugin_kind import PluginKind
from agentfly.config.reference_page import settings_page
from agentfly.config.settings import (
    AlgorithmSettings,
    CheckpointSettings,
    ClusterSettings,
    EngineSettings,
    EnvironmentSettings,
    EvalSettings,
    LearnerSettings,
    LoraSettings,
    ModelSettings,
    RolloutSettings,
    RunSettings,
    Settings,
    SourceSettings,
    TrackSettings,
    TrainSettings,
)
from agentfly.config.settings_file import Check, Plugins, load_settings
from agentfly.config.toml_writer import to_toml
from agentfly.config.validation_errors import Problem, SettingsError

__all__ = [
    "AlgorithmSettings",
    "Check",
    "CheckpointSettings",
    "ClusterSettings",
    "EngineSettings",
    "EnvironmentSettings",
    "EvalSettings",
    "LearnerSettings",
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
