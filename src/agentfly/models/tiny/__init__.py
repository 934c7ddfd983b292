"""Llamas of about 1, 5 and 15 million parameters that share one tokenizer, and their making.

    lexicon.toml        the words
    phrase.py           templates of plain English over these words
    arithmetic.py       questions with a known answer, and those held out for the measure
    tool_schemas.py     the tools that conversations show
    conversation.py     generated conversations, rendered as agents render theirs
    tokenizer.py        byte-level BPE over both; chat_template.jinja next to it
    solve_rate.py       the share of calculator questions solved at temperature 1
    pretrain.py         the sizes, batches of conversations, and the training loop
    build.py            folders of models
    shipped/            the model `tiny`: a Hugging Face folder, and the log of the run that made it

`python -m agentfly.models.tiny --help` makes any of them again.
"""
