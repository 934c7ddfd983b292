"""Questions from the usual files: SQuAD, NQ-open, HotpotQA, TriviaQA, 2WikiMultihopQA, MuSiQue."""

from agentfly.environments.search.questions.datasets import MAX_HOPS, QuestionFormat, load_questions
from agentfly.environments.search.questions.question_set import QuestionSet, split_rows

__all__ = ["MAX_HOPS", "QuestionFormat", "QuestionSet", "load_questions", "split_rows"]
