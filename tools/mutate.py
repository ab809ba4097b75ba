"""The small wrong changes that can be made to a C file, by rule.

A rule is a generator over the text with comments, strings and preprocessor lines blanked out (so positions stay true); it
yields (start, end, replacement). Only bodies of functions are changed, and the values of `#define NAME NUMBER`: elsewhere a
change is one of an interface, which compilers and ABI checks see to. What stands in an assertion is left alone, for dropping
one shows nothing. The sources are as clang-format leaves them: a binary operator has a space on both sides, a function's braces
stand in the first column.
"""
import dataclasses
import re

BLANK = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'|^[ \t]*#(?:\\\n|[^\n])*', re.S | re.M)
BODY = re.compile(r"^\{\n.*?^\}", re.S | re.M)
DEFINE = re.compile(r"^#define \w+[ \t]+(.*?\d.*)$", re.M)
CHOICE = re.compile(r"(\w\S*(?: [-+] \S+)?) (<=?|>=?) (\w\S*(?: [-+] \S+)?) \? (?:\1 : \3|\3 : \1)(?![\w.\[-])")
ASSERTION = re.compile(r"\b(?:static_)?assert\(")

SWAPS = {
    "comparison": {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="},
    "arithmetic": {"+": "-", "-": "+", "*": "/", "/": "*", "%": "/", "+=": "-=", "-=": "+="},
    "bits": {"&": "|", "|": "&", "^": "&", "<<": ">>", ">>": "<<", "&=": "|=", "|=": "&="},
    "logic": {"&&": "||", "||": "&&"},
}
STEPS = {"++": "--", "--": "++"}
NUMBER = re.compile(r"(?<![\w.])(0[xX][0-9a-fA-F]+|\d+)(?=[uUlL]*\b)(?!\w*\.)")
STATEMENT = re.compile(r"^\t+((?:\*+|\+\+|--)?\w+(?:\(|\[|\.|->| [-+*/|&^<>]*= |\+\+|--)[^{}]*?;|break;|continue;)$", re.M)
CALL = re.compile(r"\b(?!if\b|while\b|for\b|switch\b|return\b|sizeof\b|offsetof\b)\w+\(")
ORDER = re.compile(r"\b(?:memory_order_(?:acquire|release|acq_rel|seq_cst)|__ATOMIC_(?:ACQUIRE|RELEASE|ACQ_REL|SEQ_CST))\b")
PLAIN_ATOMIC = re.compile(r"\batomic_(?:load|store)\(")


@dataclasses.dataclass(frozen=True)
class Mutant:
    """One change: file, line counted from 1, the rule's name, the place in the text and what comes there, and both lines."""
    file: str
    line: int
    rule: str
    start: int
    end: int
    new: str
    before: str
    after: str

    def key(self):
        return (self.file, self.rule, self.before, self.after)

    def apply(self, text):
        return text[:self.start] + self.new + text[self.end:]


def blanked(text):
    """The text with spaces for all that is no code, of the same length."""
    return BLANK.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), text)


def closing(text, start):
    """Where the parenthesis that opens at `start` closes."""
    depth = 0
    for at in range(start, len(text)):
        depth += (text[at] == "(") - (text[at] == ")")
        if depth == 0:
            return at
    raise ValueError("a parenthesis does not close")


def arguments(text, opening):
    """Spans of the arguments of a call whose parenthesis opens there."""
    end, depth, spans, start = closing(text, opening), 0, [], opening + 1
    for at in range(opening + 1, end):
        depth += (text[at] in "([{") - (text[at] in ")]}")
        if text[at] == "," and depth == 0:
            spans.append((start, at))
            start = at + 1
    spans.append((start, end))
    return [(s + len(text[s:e]) - len(text[s:e].lstrip()), e) for s, e in spans]


def swapped(name):
    table = SWAPS[name]
    pattern = re.compile("(?<= )(" + "|".join(re.escape(op) for op in sorted(table, key=len, reverse=True)) + ")(?=[ \n])")

    def rule(code):
        same = {m.start(2) for m in CHOICE.finditer(code)}  # the smaller of two is the same number when they are equal
        for m in pattern.finditer(code):
            if m.start() in same:
                continue
            yield m.start(), m.end(), table[m.group()]
    return rule


def steps(code):
    for m in re.finditer(r"\+\+|--", code):
        yield m.start(), m.end(), STEPS[m.group()]


def complement(code):
    for m in re.finditer(r"~(?=[\w(])", code):
        yield m.start(), m.end(), ""


def bounds(code):
    """One more or one less on the right of an order comparison."""
    for m in re.finditer(r"(?<= )(?:<=?|>=?) (?=[\w(*])", code):
        yield m.end(), m.end(), "1 + "
        if not re.match(r"0\b(?!x)", code[m.end():]):  # only the sign is asked for: of error codes it is -EPERM that would differ
            yield m.end(), m.end(), "-1 + "


def conditions(code):
    for m in re.finditer(r"\b(?:if|while) \(", code):
        end = closing(code, m.end() - 1)
        yield m.end() - 1, end + 1, f"(!({code[m.end():end]}))"


def statements(code):
    for m in STATEMENT.finditer(code):
        if not m.group(1).startswith(("return", "goto", "case ", "default")):
            yield m.start(1), m.end(1), ";"


def neighbours(code):
    """Two arguments of a call that stand side by side, the one for the other."""
    for m in CALL.finditer(code):
        spans = arguments(code, m.end() - 1)
        for (a, b), (c, d) in zip(spans, spans[1:]):
            if code[a:b] != code[c:d]:
                yield a, d, code[c:d] + code[b:c] + code[a:b]


def constants(code):
    for m in NUMBER.finditer(code):
        value = int(m.group(), 0) if m.group().lower().startswith("0x") else int(m.group())
        yield m.start(), m.end(), str(value + 1)
        if value > 1:
            yield m.start(), m.end(), str(value - 1)


def orders(code):
    for m in ORDER.finditer(code):
        yield m.start(), m.end(), "memory_order_relaxed" if m.group().startswith("m") else "__ATOMIC_RELAXED"
    for m in PLAIN_ATOMIC.finditer(code):
        end = closing(code, m.end() - 1)
        yield m.end() - 1, end, "_explicit" + code[m.end() - 1:end] + ", memory_order_relaxed"


RULES = {**{name: swapped(name) for name in SWAPS}, "step": steps, "complement": complement, "bound": bounds,
         "condition": conditions, "dropped": statements, "arguments": neighbours, "constant": constants, "order": orders}


def places(text):
    """(where it begins, code) of each part that may be changed."""
    code = blanked(text)
    for m in BODY.finditer(code):
        yield m.start(), m.group(), RULES
    for m in DEFINE.finditer(text):
        yield m.start(1), re.sub(r"/\*.*", "", m.group(1)), {"constant": constants}


def line_of(text, at):
    """The line's number, and where the line begins and ends."""
    start = text.rfind("\n", 0, at) + 1
    end = text.find("\n", at)
    return text.count("\n", 0, at) + 1, start, len(text) if end < 0 else end


def mutants(name, text):
    """Every mutant of a file, in the order of the text. A change says its line's text before and after; one that goes over
    lines says its first and last in one."""
    found = []
    for offset, code, rules in places(text):
        for rule, make in rules.items():
            for start, end, new in make(code):
                number, begin, _ = line_of(text, offset + start)
                _, _, finish = line_of(text, max(offset + end - 1, offset + start))
                before = text[begin:finish]
                if ASSERTION.search(before):
                    continue
                # the replacement was made of blanked text: strings that stand in it come from the text again
                if '"' in text[offset + start:offset + end] or "'" in text[offset + start:offset + end]:
                    continue
                after = text[begin:offset + start] + new + text[offset + end:finish]
                found.append(Mutant(name, number, rule, offset + start, offset + end, new,
                                    " ".join(before.split()), " ".join(after.split())))
    return sorted(found, key=lambda m: (m.start, m.end, m.rule, m.new))
