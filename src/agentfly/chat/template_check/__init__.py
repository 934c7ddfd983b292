"""The check of a chat template, which `agentfly check` prints.

check                the report, line by line
scenarios            scripted conversations, run through the renderer turn by turn
expected_turn        the text that must follow each turn, from independent renderings
reference_renderer   these renderings, by transformers
read_back            calls, text and ends of turns, parsed back
forgery              attempts to inject special tokens through text
bare_template        a renderer for a template without its tokenizer
"""
