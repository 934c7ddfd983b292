"""Evaluating models on tasks: attempts, numbers with intervals, comparisons, new rewards."""

from agentfly.evaluation.evaluate import EvaluatedSource, EvaluationResult, evaluate

__all__ = ["EvaluatedSource", "EvaluationResult", "evaluate"]
