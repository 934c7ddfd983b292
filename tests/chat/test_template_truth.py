"""The table about real templates, against what transformers renders with them."""

import pytest
from benchmarks.template_files import real_templates
from benchmarks.template_renderings import TemplateRenderings
from benchmarks.template_truth import CALLS, END_OF, FORMAT_OF, REWRITES

TEMPLATES = real_templates()
ENDS = {name for names in END_OF.values() for name in names}
REWRITING = {name for names in REWRITES.values() for name in names}


def test_every_template_at_hand_has_an_end() -> None:
    assert TEMPLATES.keys() <= ENDS


@pytest.mark.parametrize("name", sorted(TEMPLATES))
def test_the_table_says_what_the_template_does(name: str) -> None:
    truth = TemplateRenderings(TEMPLATES[name].read_text(encoding="utf-8"))
    written = CALLS.get(FORMAT_OF[name] or "")
    assert truth.loads
    assert truth.one_call == (written is not None)
    assert truth.two_calls == bool(written and written.two)
    steps = (step for script in truth.scripts() for step in truth.steps(script))
    assert any(step.rewritten for step in steps) == (name in REWRITING)
