#!/usr/bin/env python3
"""check_references.py ROOT: sources and scripts under ROOT that cite a document under docs/ name what is there.

"FORMAT.md section 5", "ENGINE.md sections 1, 2 and 4", "FORMAT.md sections 1 to 3": numbered headings of that document.
'(CLI.md, "Sizes")', 'CLI.md\\'s "Common"': a heading or a list's item that begins with it. A document by itself: it exists.
Prints each reference that leads nowhere; exit status 1 if there are any, 2 if no reference was found at all.
"""
import os
import re
import sys

root = sys.argv[1]
NUMBERS = r"\d+(?:(?:, | and | to )\d+)*"
REFERENCE = re.compile(r"\b([A-Z]+\.md)\b(?: sections? (" + NUMBERS + r")|(?:,|'s) \"([^\"]+)\")?")


def headings(document):
    with open(os.path.join(root, "docs", document), encoding="utf-8") as file:
        return [line.lstrip("#-").strip() for line in file if line.startswith(("#", "- "))]


def sections(text):
    found = set()
    for part in re.split(r", | and ", text):
        first, _, last = part.partition(" to ")
        found.update(range(int(first), int(last or first) + 1))
    return found


def texts():
    for top in ("lib", "apps", "tests", "scripts", "manifests"):
        for directory, names, files in os.walk(os.path.join(root, top)):
            names[:] = [name for name in names if name not in ("golden", "seeds", "__pycache__")]
            for name in files:
                if name.endswith((".cc", ".h", ".inl", ".cu", ".sh", ".py", ".txt", ".sbatch", ".html", ".cmake")):
                    yield os.path.join(directory, name)


documents, references, wrong = {}, 0, []
for path in texts():
    if os.path.basename(path) in ("check_references.py", "documents.sh"):
        continue
    with open(path, encoding="utf-8", errors="replace") as file:
        text = re.sub(r"\s*\n\s*(?://|#)?\s*", " ", file.read())  # a comment continues on the next line
    for match in REFERENCE.finditer(text):
        document, numbers, title = match.groups()
        if document in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md"):
            continue
        references += 1
        if document not in documents:
            there = os.path.exists(os.path.join(root, "docs", document))
            documents[document] = headings(document) if there else None
        known = documents[document]
        if known is None:
            wrong.append(f"{path}: docs/{document} is not there")
        elif numbers:
            there = {int(m[1]) for m in (re.match(r"(\d+)\. ", heading) for heading in known) if m}
            wrong += [f"{path}: {document} has no section {n}" for n in sorted(sections(numbers) - there)]
        elif title and not any(re.sub(r"^\d+\. ", "", heading).startswith(title) for heading in known):
            wrong.append(f"{path}: {document} has nothing called '{title}'")
print("\n".join(wrong))
sys.exit(1 if wrong else 0 if references else 2)
