"""Line numbers of keys, against texts with every kind of TOML value that spans lines."""

from ridgeline.config.toml_lines import key_lines, line_of

TEXT = '''\
# top = 1
first = 1
dotted . "key" = 2

[run] # steps = 9
text = """
steps = 1
[grid]
""" # end
steps = 3
literal = \'\'\'
a = 1\'\'\'
list = [
  "]", # ]
  [1, 2],
]
after = "a # b = [ "
inline = { a = 1, b = "}" }
"quoted" = 'c:\\'

  [ grid . deep ]
  shape = [1, 2, 3]
[[many]]
x = 1
[many.inner]
y = 1
[[ many ]]
x = 2
[[many.more]]
z = 1
[[many.more]]
z = 2
[last]
x = 3
'''


def test_lines_of_keys_and_tables() -> None:
    assert key_lines(TEXT) == {
        "first": 2,
        "dotted.key": 3,
        "run": 5,
        "run.text": 6,
        "run.steps": 10,
        "run.literal": 11,
        "run.list": 13,
        "run.after": 17,
        "run.inline": 18,
        "run.quoted": 19,
        "grid.deep": 21,
        "grid.deep.shape": 22,
        "many": 23,
        "many.0": 23,
        "many.0.x": 24,
        "many.0.inner": 25,
        "many.0.inner.y": 26,
        "many.1": 27,
        "many.1.x": 28,
        "many.1.more": 29,
        "many.1.more.0": 29,
        "many.1.more.0.z": 30,
        "many.1.more.1": 31,
        "many.1.more.1.z": 32,
        "last": 33,
        "last.x": 34,
    }


def test_key_without_a_line_has_that_of_its_table() -> None:
    lines = key_lines("[run]\n\ngrid = { shape = [1, 1, 1] }\n")
    assert line_of(lines, "run.absent") == 1
    assert line_of(lines, "run.grid.shape") == 3
    assert line_of(lines, "other.key") is None
