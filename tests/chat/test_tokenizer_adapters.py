"""Tokenizer adapters: nothing is added, special tokens are recognized, decoding never fails."""

import importlib
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors

from agentfly.chat import ByteTokenizer, TemplateRenderer, load_tokenizer, wrap_tokenizer
from agentfly.chat.tokenizer_adapters import control_tokens, well_formed
from agentfly.errors import ConfigError, FormatError

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def byte_level() -> Tokenizer:
    """Make a tokenizer of bytes whose post-processor would add a start token, as Llama's does."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<s>", "<|im_end|>"])
    tokenizer.add_tokens([AddedToken("<tool_call>", special=False)])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", tokenizer.token_to_id("<s>"))]
    )
    return tokenizer


@given(st.text(alphabet=st.characters()))
def test_bytes_come_back_as_the_same_text(text: str) -> None:
    tokenizer = ByteTokenizer(["<|a|>", "<|a|>b"])
    assert tokenizer.decode(tokenizer.encode(text)) == well_formed(text)


@given(st.lists(st.integers(min_value=-5, max_value=400)))
def test_decoding_bytes_never_raises(ids: list[int]) -> None:
    assert isinstance(ByteTokenizer(["<|a|>"]).decode(ids), str)


def test_bytes_by_hand() -> None:
    tokenizer = ByteTokenizer(["<e>", "<e>>"], eos_token="<e>")
    assert tokenizer.encode("é<e>>") == [0xC3, 0xA9, 257]  # the longest special token wins
    assert tokenizer.decode([0xC3, 256, 999]) == "\ufffd<e>\ufffd"
    assert (tokenizer.eos_id, tokenizer.vocab_size) == (256, 258)


def test_lone_surrogates_become_replacement_characters_and_pairs_join() -> None:
    assert well_formed("a\ud800b\udc00") == "a\ufffdb\ufffd"
    assert well_formed("\ud83d\ude00") == "😀"


def test_an_empty_special_token_is_refused() -> None:
    with pytest.raises(ConfigError, match="empty"):
        ByteTokenizer([""])


def test_a_fast_tokenizer_adds_nothing_and_knows_all_added_tokens() -> None:
    inner = byte_level()
    wrapped = wrap_tokenizer(inner, eos_token="<|im_end|>")
    ids = wrapped.encode("hi<tool_call><|im_end|>")
    special = wrapped.special_ids
    assert ids[2:] == [inner.token_to_id("<tool_call>"), special["<|im_end|>"]]
    assert special["<s>"] not in ids
    assert wrapped.eos_id == special["<|im_end|>"]
    assert wrapped.decode(ids) == "hi<tool_call><|im_end|>"
    assert wrapped.decode([-1, 2**40, *ids]) == "hi<tool_call><|im_end|>"


def test_truncation_and_padding_are_undone_without_touching_the_users_object() -> None:
    inner = byte_level()
    inner.enable_truncation(max_length=3)
    inner.enable_padding(length=3)
    wrapped = wrap_tokenizer(inner)
    assert wrapped.decode(wrapped.encode("longer than three")) == "longer than three"
    assert wrapped.decode(wrapped.encode("a")) == "a"
    assert inner.truncation is not None
    assert inner.truncation["max_length"] == 3


def test_a_transformers_tokenizer_is_met_through_its_backend() -> None:
    transformers: Any = importlib.import_module("transformers")
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=byte_level(), eos_token="<|im_end|>", clean_up_tokenization_spaces=True
    )
    wrapped = wrap_tokenizer(fast)
    text = "don 't . strip<|im_end|>"
    assert wrapped.decode(wrapped.encode(text)) == text
    assert wrapped.eos_id == fast.eos_token_id


def test_tokens_that_only_abbreviate_text_are_no_control_tokens() -> None:
    # As in Gemma: an empty line and HTML tags are added tokens, without being special.
    inner = byte_level()
    inner.add_tokens([AddedToken(text, special=False) for text in ("\n\n", "<table>")])
    wrapped = wrap_tokenizer(inner)
    assert set(control_tokens(wrapped, "{{ '<tool_call>\n\n' }}")) == {
        "<s>", "<|im_end|>", "<tool_call>",
    }  # fmt: skip


class Slow:
    """A transformers tokenizer without a backend, of single letters."""

    added_tokens_decoder = {26: AddedToken("<e>", special=True)}  # noqa: RUF012
    eos_token_id = 26

    def __len__(self) -> int:
        return 27

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        assert not add_special_tokens
        return [26 if part == "<e>" else ord(part) - 97 for part in re.findall("<e>|[a-z]", text)]

    def decode(
        self, ids: list[int], *, skip_special_tokens: bool, clean_up_tokenization_spaces: bool
    ) -> str:
        assert not skip_special_tokens
        assert not clean_up_tokenization_spaces
        return "".join("<e>" if i == 26 else chr(97 + i) for i in ids)


def test_a_slow_tokenizer_is_met_by_what_it_can_do() -> None:
    wrapped = wrap_tokenizer(Slow())
    assert wrapped.encode("ab<e>") == [0, 1, 26]
    assert wrapped.decode([0, 99, 26, -1]) == "a<e>"
    assert (wrapped.eos_id, dict(wrapped.special_ids)) == (26, {"<e>": 26})


def test_one_that_fits_is_returned_and_a_stranger_is_refused() -> None:
    own = ByteTokenizer()
    assert wrap_tokenizer(own) is own
    with pytest.raises(ConfigError, match="can't use int as a tokenizer"):
        wrap_tokenizer(3)
    with pytest.raises(ConfigError, match="'<nope>' is not in the tokenizer's vocabulary"):
        wrap_tokenizer(byte_level(), eos_token="<nope>")


def model_folder(folder: Path, **config: Any) -> Path:
    byte_level().save(str(folder / "tokenizer.json"))
    eos = {"content": "<|im_end|>", "special": True}
    settings = {"eos_token": eos, "bos_token": "<s>", "pad_token": None, **config}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder


def test_a_folder_gives_tokenizer_names_and_template(tmp_path: Path) -> None:
    found = load_tokenizer(model_folder(tmp_path, chat_template=CHATML))
    assert found.chat_template == CHATML
    assert found.named_tokens == {"eos_token": "<|im_end|>", "bos_token": "<s>"}
    assert found.tokenizer.eos_id == found.tokenizer.special_ids["<|im_end|>"]


def test_the_jinja_file_goes_before_the_json_file_before_the_settings(tmp_path: Path) -> None:
    folder = model_folder(tmp_path, chat_template="settings")
    (folder / "chat_template.json").write_text(json.dumps({"chat_template": "json"}))
    assert load_tokenizer(folder).chat_template == "json"
    (folder / "chat_template.jinja").write_text("jinja")
    assert load_tokenizer(folder).chat_template == "jinja"


def test_of_several_templates_the_one_for_tools_is_taken(tmp_path: Path) -> None:
    named = [{"name": "default", "template": "d"}, {"name": "tool_use", "template": "t"}]
    assert load_tokenizer(model_folder(tmp_path, chat_template=named)).chat_template == "t"
    assert load_tokenizer(model_folder(tmp_path, chat_template=named[:1])).chat_template == "d"


def test_a_renderer_comes_straight_from_a_folder(tmp_path: Path) -> None:
    renderer = TemplateRenderer.from_folder(model_folder(tmp_path, chat_template=CHATML))
    assert renderer.decode(renderer.stop_token_ids) == "<|im_end|>"
    with pytest.raises(ConfigError, match="carries no chat template"):
        TemplateRenderer.from_folder(model_folder(tmp_path, chat_template=None))


def test_what_is_wrong_with_a_folder_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no tokenizer\.json"):
        load_tokenizer(tmp_path)
    model_folder(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text("{")
    with pytest.raises(FormatError, match="not valid JSON"):
        load_tokenizer(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text("[]")
    with pytest.raises(FormatError, match="must hold an object"):
        load_tokenizer(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text("{}")
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(FormatError, match="not a tokenizer that can be read"):
        load_tokenizer(tmp_path)


def test_the_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model_folder(tmp_path)
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(ConfigError, match=r"agentfly\[tokenizers\]"):
        load_tokenizer(tmp_path)
