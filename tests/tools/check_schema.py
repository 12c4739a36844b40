#!/usr/bin/env python3
"""check_schema.py SCHEMA DOCUMENT...: whether JSON documents fit a JSON Schema (draft 2020-12), as far as the
schemas in manifests/ use it; a keyword that is not known here is an error, so that nothing passes unchecked."""
import json
import re
import sys

ANNOTATIONS = {"$schema", "$id", "$defs", "title", "description", "examples", "$comment"}
TYPES = {
    "object": lambda v: isinstance(v, dict),
    "array": lambda v: isinstance(v, list),
    "string": lambda v: isinstance(v, str),
    "boolean": lambda v: isinstance(v, bool),
    "null": lambda v: v is None,
    "integer": lambda v: isinstance(v, int) and not isinstance(v, bool),
    "number": lambda v: isinstance(v, (int, float)) and not isinstance(v, bool),
}


class Checker:
    def __init__(self, root):
        self.root = root

    def resolve(self, ref):
        at = self.root
        for part in ref.removeprefix("#/").split("/"):
            at = at[part]
        return at

    def check(self, schema, value, where="$"):
        """Returns (complaints, the object's keys that some part of the schema speaks of)."""
        if isinstance(schema, bool):
            return ([] if schema else [f"{where}: is not allowed"]), set()
        bad, seen = [], set()

        def take(result):
            bad.extend(result[0])
            seen.update(result[1])

        for keyword, rule in schema.items():
            if keyword in ANNOTATIONS or keyword in ("then", "else", "unevaluatedProperties", "additionalProperties"):
                continue
            if keyword == "$ref":
                take(self.check(self.resolve(rule), value, where))
            elif keyword == "allOf":
                for part in rule:
                    take(self.check(part, value, where))
            elif keyword in ("oneOf", "anyOf"):
                results = [self.check(part, value, where) for part in rule]
                good = [r for r in results if not r[0]]
                if not good or (keyword == "oneOf" and len(good) != 1):
                    bad.append(f"{where}: fits {len(good)} of {keyword}: {min((r[0] for r in results), key=len)[:3]}")
                for r in good:
                    seen.update(r[1])
            elif keyword == "not":
                if not self.check(rule, value, where)[0]:
                    bad.append(f"{where}: fits what is excluded")
            elif keyword == "if":
                hit = not self.check(rule, value, where)[0]
                branch = schema.get("then" if hit else "else")
                if branch is not None:
                    take(self.check(branch, value, where))
            elif keyword == "type":
                kinds = [rule] if isinstance(rule, str) else rule
                if not any(TYPES[k](value) for k in kinds):
                    bad.append(f"{where}: is not of type {rule}")
            elif keyword == "const":
                if value != rule:
                    bad.append(f"{where}: is {value!r}, not {rule!r}")
            elif keyword == "enum":
                if value not in rule:
                    bad.append(f"{where}: {value!r} is not one of {rule}")
            elif keyword == "required":
                if isinstance(value, dict):
                    bad += [f"{where}: lacks {k!r}" for k in rule if k not in value]
            elif keyword == "properties":
                if isinstance(value, dict):
                    for key, part in rule.items():
                        if key in value:
                            seen.add(key)
                            bad += self.check(part, value[key], f"{where}.{key}")[0]
            elif keyword == "patternProperties":
                for key in value if isinstance(value, dict) else ():
                    for pattern, part in rule.items():
                        if re.search(pattern, key):
                            seen.add(key)
                            bad += self.check(part, value[key], f"{where}.{key}")[0]
            elif keyword == "items":
                if isinstance(value, list):
                    for i, item in enumerate(value):
                        bad += self.check(rule, item, f"{where}[{i}]")[0]
            elif keyword in ("minItems", "maxItems"):
                if isinstance(value, list) and (len(value) < rule if keyword == "minItems" else len(value) > rule):
                    bad.append(f"{where}: has {len(value)} items")
            elif keyword in ("minLength", "maxLength"):
                if isinstance(value, str) and (len(value) < rule if keyword == "minLength" else len(value) > rule):
                    bad.append(f"{where}: has {len(value)} characters")
            elif keyword in ("minimum", "maximum"):
                if TYPES["number"](value) and (value < rule if keyword == "minimum" else value > rule):
                    bad.append(f"{where}: is {value}")
            elif keyword == "pattern":
                if isinstance(value, str) and not re.search(rule, value):
                    bad.append(f"{where}: {value!r} does not match {rule}")
            elif keyword == "uniqueItems":
                if rule and isinstance(value, list) and len({json.dumps(v) for v in value}) != len(value):
                    bad.append(f"{where}: has an item twice")
            else:
                bad.append(f"{where}: this program does not know the keyword {keyword!r}")
        for keyword in ("additionalProperties", "unevaluatedProperties"):
            if keyword in schema and isinstance(value, dict):
                known = seen
                if keyword == "additionalProperties":
                    known = set(schema.get("properties", {}))
                    patterns = schema.get("patternProperties", {})
                    known |= {k for k in value if any(re.search(p, k) for p in patterns)}
                for key in value.keys() - known:
                    bad += self.check(schema[keyword], value[key], f"{where}.{key}")[0]
                    seen.add(key)
        return bad, seen


def main():
    with open(sys.argv[1]) as file:
        schema = json.load(file)
    failed = False
    for path in sys.argv[2:]:
        try:
            with open(path, "rb") as file:
                value = json.loads(file.read().decode("utf-8"))
            complaints = Checker(schema).check(schema, value)[0]
        except ValueError as error:
            complaints = [f"is not one JSON document: {error}"]
        for complaint in complaints:
            print(f"{path}: {complaint}")
        failed |= bool(complaints)
    sys.exit(failed)


main()
