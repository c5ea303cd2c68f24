from executor.schema.pointer import MAX_POINTER_CHARS, pointer


def test_a_pointer_escapes_slash_and_tilde():
    assert pointer(["a/b", 0, "c~d"]) == "/a~1b/0/c~0d"
    assert pointer([]) == ""


def test_a_pointer_is_bounded_and_valid_utf8():
    text = pointer(["k" * 10_000, "\ud800"])
    assert len(text) <= MAX_POINTER_CHARS
    assert text.encode()
