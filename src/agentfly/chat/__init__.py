"""Between messages and tokens: templates, tokenizers, tool-call formats, mask policies."""

from agentfly.chat.chat_template import CHATML, CHATML_TOKENS, ChatTemplate
from agentfly.chat.mask import MASK_POLICIES, apply_mask, mask_policy, per_turn
from agentfly.chat.reasoning import OpensReasoning
from agentfly.chat.template_check.check import TemplateReport, check_template
from agentfly.chat.template_renderer import TemplateRenderer
from agentfly.chat.tokenizer_adapters import ByteTokenizer, wrap_tokenizer
from agentfly.chat.tokenizer_folder import TokenizerFolder, load_tokenizer
from agentfly.types import MaskPolicy

__all__ = [
    "CHATML",
    "CHATML_TOKENS",
    "MASK_POLICIES",
    "ByteTokenizer",
    "ChatTemplate",
    "MaskPolicy",
    "OpensReasoning",
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
