"""Between messages and tokens: templates, tokenizers, tool-call formats, mask policies."""

from agentfly.chat.chatml import CHATML, CHATML_TOKENS
from agentfly.chat.check import check_template
from agentfly.chat.mask import MASK_POLICIES, apply_mask, mask_policy, per_turn
from agentfly.chat.reasoning import Opened
from agentfly.chat.render import TemplateRenderer
from agentfly.chat.template import ChatTemplate
from agentfly.chat.template_report import TemplateReport
from agentfly.chat.tokenizer import ByteTokenizer, wrap_tokenizer
from agentfly.chat.tokenizer_folder import TokenizerFolder, load_tokenizer
from agentfly.types import MaskPolicy

__all__ = [
    "CHATML",
    "CHATML_TOKENS",
    "MASK_POLICIES",
    "ByteTokenizer",
    "ChatTemplate",
    "MaskPolicy",
    "Opened",
    "TemplateRenderer",
    "TemplateReport",
    "TokenizerFolder",
    "apply_mask",
    "check_template",
    "load_tokenizer",
    "mask_policy",
    "per_turn",
    "wrap_tokenizer",
]
