"""Questions from the usual files: SQuAD, NQ-open, HotpotQA, TriviaQA, 2WikiMultihopQA, MuSiQue."""

from agentfly.environments.search.questions.load import HOPS, Form, load_questions
from agentfly.environments.search.questions.question_set import QuestionSet
from agentfly.environments.search.questions.split import split_rows

__all__ = ["HOPS", "Form", "QuestionSet", "load_questions", "split_rows"]
