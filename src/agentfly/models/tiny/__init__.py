"""Llamas of about 1, 5 and 15 million parameters that share one tokenizer, and how they are made.

    lexicon.toml        the words
    phrase.py           templates of plain English over these words
    arithmetic.py       questions with a known answer, and those held out for the measure
    toolbox.py          the tools that conversations show
    conversation.py     generated conversations, rendered as agents render theirs
    tokenizer.py        byte-level BPE over both; chat_template.jinja beside it
    shape.py            the sizes, and models with random weights
    batch.py            conversations packed into token rows, with loss on the assistant's own
    measure.py          the share of calculator questions solved at temperature 1
    pretrain.py         the training loop
    build.py            folders of models
    shipped/            the model `tiny`: a Hugging Face folder, and the log of the run that made it

`python -m agentfly.models.tiny --help` makes any of them anew.
"""
