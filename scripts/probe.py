#!/usr/bin/env python3
"""Compares the answers of a running OpenAI-compatible server with a reference: is the model still itself?

probe.py [--url http://127.0.0.1:8000] [--model NAME] [--only PART,...] [--repeat N] [--record FILE | --compare FILE] [--json]

Parts:
  acceptance  three greedy generations of 512 tokens: mean accepted length and acceptance rate of speculative drafts, from
              the server's /metrics. Skipped where the server has no drafts.
  coherence   twelve fixed prompts, greedy: loops and broken text are found; against a reference, answers that are equal.
  arithmetic  five problems of several steps with known answers.
  needle      a passphrase at several depths of texts of several lengths (--needle-words): found or not.
  speed       tokens a second of one stream. Every prompt is new, since a cached prefix would be answered too fast.

--record FILE keeps the results as a reference. --compare FILE says same, better or worse for each figure: a difference
counts only where it is larger than the noise, the largest difference between repeated runs of either side (--repeat,
default 2). Exit status: 0 done; 1 the server failed; 2 wrong use; 3 worse than the reference.

It does not prove that two models are equal: a few dozen answers see large damage (broken text, lost arithmetic, lost
context), not a loss of a point in a benchmark."""
import argparse
import json
import os
import random
import re
import sys
import time
import urllib.error
import urllib.request

PARTS = ("acceptance", "coherence", "arithmetic", "needle", "speed")

COHERENCE = (
    "Explain in four sentences why the sea is salty.",
    "Write a short letter in which a lighthouse keeper asks for new lamp oil.",
    "List the steps for changing a bicycle tube, in order.",
    "Describe the water cycle to a child of eight.",
    "What is the difference between a virus and a bacterium? Answer in one paragraph.",
    "Write a function in Python that returns the second largest number in a list, and say how it works.",
    "Tell a story of five sentences about a clock that runs backwards.",
    "Summarize the plot of a voyage to the Moon as a captain's log of three entries.",
    "Why do bridges have gaps between their parts? Answer briefly.",
    "Translate into French: The library closes at six, but the reading room stays open.",
    "Name five uses of copper and give a reason for each.",
    "A friend is nervous before a speech. Write what you would say.",
)

ARITHMETIC = (
    ("A shop sells pens at 3 coins each and notebooks at 7. Ann buys 12 pens and 5 notebooks and pays with 100 coins. How "
     "many coins does she get back?", 29),
    ("A tank holds 480 litres. A pump fills 16 litres a minute and a leak loses 4 litres a minute. After how many minutes is "
     "the empty tank full?", 40),
    ("A train leaves at 9:40 and travels 210 km at 84 km an hour, with one stop of 15 minutes. How many minutes after 9:40 "
     "does it arrive?", 165),
    ("A field is 45 m long and 28 m wide. A path 2 m wide runs around it on the outside. How many square metres does the path "
     "cover?", 308),
    ("Start with 17. Double it, add 6, divide by 5, then multiply by 9 and subtract 11. What is the result?", 61),
)

FILLER = ("The ferry crossed the grey strait before noon.", "Barrels of salted fish stood along the quay.",
          "A clerk wrote the weights into a long blue book.", "Wind from the hills smelled of cut hay.",
          "Two carpenters argued about the length of a beam.", "The bell of the customs house rang eleven.",
          "Someone had painted the railings green again.", "A dog slept in the shade of the weighing scale.")
WORDS = ("amber", "birch", "cobalt", "dune", "ember", "fjord", "garnet", "heron", "indigo", "juniper", "kelp", "larch", "maple",
         "nettle", "onyx", "poplar")


class Failure(Exception):
    pass


def reason(error):
    """Why something failed, in words: not the wrappings and numbers that str() shows."""
    error = getattr(error, "reason", error)
    return getattr(error, "strerror", None) or str(error)


class Server:
    def __init__(self, url, model, timeout):
        self.url, self.timeout = url.rstrip("/"), timeout
        self.key = os.environ.get("OPENAI_API_KEY", "")
        self.model = model or self.first_model()

    def request(self, path, body=None):
        headers = {"Content-Type": "application/json"}
        if self.key:
            headers["Authorization"] = "Bearer " + self.key
        data = None if body is None else json.dumps(body).encode()
        try:
            with urllib.request.urlopen(urllib.request.Request(self.url + path, data, headers), timeout=self.timeout) as answer:
                return answer.read(64 << 20)
        except urllib.error.HTTPError as error:
            text = error.read(500).decode(errors="replace")
            raise Failure(f"{self.url}{path}: status {error.code}: {text!r}") from None
        except (OSError, ValueError) as error:
            raise Failure(f"{self.url}{path}: {reason(error)}") from None

    def json(self, path, body=None):
        try:
            return json.loads(self.request(path, body))
        except json.JSONDecodeError:
            raise Failure(f"{self.url}{path}: the answer is not JSON") from None

    def first_model(self):
        models = self.json("/v1/models").get("data") or []
        if not models:
            raise Failure(f"{self.url}/v1/models lists no model; name one with --model")
        return models[0]["id"]

    def ask(self, prompt, tokens):
        """Greedy answer: text, tokens generated, seconds."""
        start = time.monotonic()
        answer = self.json("/v1/chat/completions", {
            "model": self.model, "messages": [{"role": "user", "content": prompt}], "temperature": 0, "seed": 1,
            "max_tokens": tokens, "stream": False})
        try:
            message = answer["choices"][0]["message"]
            text = message.get("content") or message.get("reasoning_content") or ""
            return text, int(answer["usage"]["completion_tokens"]), time.monotonic() - start
        except (KeyError, IndexError, TypeError, ValueError):
            raise Failure(f"{self.url}/v1/chat/completions: the answer lacks choices or usage") from None

    def metrics(self):
        """Counters of the server, summed over labels; empty if it has no /metrics."""
        try:
            text = self.request("/metrics").decode(errors="replace")
        except Failure:
            return {}
        sums = {}
        for line in text.splitlines():
            match = re.match(r"([A-Za-z_:][\w:]*)(?:\{[^}]*\})?\s+([-+.\deE]+)", line)
            if match:
                try:
                    sums[match[1]] = sums.get(match[1], 0.0) + float(match[2])
                except ValueError:
                    pass
        return sums


def broken(text):
    """Why a text is not an answer; empty: nothing is wrong."""
    if not text.strip():
        return "empty"
    strange = sum(c == "\ufffd" or (ord(c) < 32 and c not in "\n\t\r") for c in text)
    if strange > max(2, len(text) // 200):
        return "broken characters"
    words = text.split()
    for length in (1, 2, 3, 5, 8, 13):
        repeats = 1
        for at in range(length, len(words) - length + 1, length):
            repeats = repeats + 1 if words[at:at + length] == words[at - length:at] else 1
            if repeats * length >= 24 and repeats >= 4:
                return "loop"
    if len(words) >= 60 and len(set(words)) * 8 < len(words):
        return "loop"
    if len(words) <= 2 and len(text) > 200:
        return "one long word"
    return ""


def last_number(text):
    found = re.findall(r"-?\d[\d,]*(?:\.\d+)?", text.replace("\u2212", "-"))
    try:
        return float(found[-1].replace(",", "")) if found else None
    except ValueError:
        return None


def acceptance(server, _):
    names = {"accepted": "vllm:spec_decode_num_accepted_tokens", "drafted": "vllm:spec_decode_num_draft_tokens",
             "drafts": "vllm:spec_decode_num_drafts"}

    def counters():
        sums = server.metrics()
        return {key: sums.get(name + "_total", sums.get(name)) for key, name in names.items()}

    before = counters()
    if None in before.values():
        return {"skipped": "the server's /metrics has no counters of drafts"}
    for number in range(3):
        server.ask(f"Write an essay on the history of maps, part {number + 1} of 3.", 512)
    after = counters()
    accepted, drafted, drafts = (after[key] - before[key] for key in ("accepted", "drafted", "drafts"))
    if drafts == 0:
        return {"skipped": "no drafts were made"}
    return {"accepted_length": 1 + accepted / drafts, "acceptance_rate": accepted / max(drafted, 1)}


def coherence(server, _):
    texts = [server.ask(prompt, 200)[0] for prompt in COHERENCE]
    problems = [broken(text) for text in texts]
    return {"sound": sum(not problem for problem in problems), "of": len(texts), "answers": texts, "problems": problems}


def arithmetic(server, _):
    right, answers = 0, []
    for problem, answer in ARITHMETIC:
        text = server.ask(problem + " Think step by step and end with the number alone on the last line.", 600)[0]
        answers.append(last_number(text))
        right += answers[-1] == answer
    return {"right": right, "of": len(ARITHMETIC), "answers": answers}


def needle(server, options):
    found, rows = 0, []
    for words in options.needle_words:
        for depth in (0.0, 0.25, 0.5, 0.75, 1.0):
            draw = random.Random(f"{words}:{depth}")
            phrase = "-".join(draw.sample(WORDS, 4))
            text, length = [], 0
            while length < words:
                text.append(draw.choice(FILLER))
                length += len(text[-1].split())
            text.insert(int(depth * len(text)), f"The passphrase is {phrase}.")
            answer = server.ask(" ".join(text) + "\n\nWhat is the passphrase? Answer with it alone.", 60)[0]
            rows.append({"words": words, "depth": depth, "found": phrase in answer.lower()})
            found += rows[-1]["found"]
    return {"found": found, "of": len(rows), "rows": rows}


def speed(server, options):
    unique = random.SystemRandom()
    rates = []
    for number in range(3):
        seed = "".join(unique.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(24))
        prompt = f"Note {seed}. Count upwards from {unique.randrange(10**6)} in words, one number a line."
        # The difference of two lengths contains neither the prompt's nor the network's time.
        _, few, short = server.ask(prompt + " ", 32)
        _, many, long = server.ask(f"Task {seed[::-1]}. " + prompt, 288)
        if many > few and long > short:
            rates.append((many - few) / (long - short))
    if not rates:
        return {"skipped": "the answers were too short to be timed"}
    return {"tokens_per_second": sorted(rates)[len(rates) // 2]}


# Figures to compare, by part: name, and the smallest difference that counts.
FIGURES = {"acceptance": {"accepted_length": 0.05, "acceptance_rate": 0.02}, "coherence": {"sound": 0.5},
           "arithmetic": {"right": 0.5}, "needle": {"found": 0.5}, "speed": {"tokens_per_second": 0.5}}


def run_once(server, options):
    results = {}
    for part in options.only:
        if not options.quiet:
            print(f"probe: {part}", file=sys.stderr, flush=True)
        results[part] = globals()[part](server, options)
    return results


def equal_answers(a, b):
    return sum(x == y for x, y in zip(a["coherence"]["answers"], b["coherence"]["answers"]))


def values(runs, part, figure):
    return [run[part][figure] for run in runs if figure in run.get(part, {})]


def compare(runs, reference):
    """A row for each figure that both sides have."""
    rows = []
    for part, figures in FIGURES.items():
        for figure, least in figures.items():
            ours, theirs = values(runs, part, figure), values(reference, part, figure)
            if not ours or not theirs:
                continue
            noise = max(least, max(ours) - min(ours), max(theirs) - min(theirs))
            now, before = sum(ours) / len(ours), sum(theirs) / len(theirs)
            verdict = "same" if abs(now - before) <= noise else "better" if now > before else "worse"
            rows.append({"part": part, "figure": figure, "now": now, "reference": before, "noise": noise, "verdict": verdict})
    if all("coherence" in run for run in (runs[0], reference[0])):
        # Compare the distance of the answers from the reference with the distance between its own runs.
        total = len(COHERENCE)
        placebo = [equal_answers(a, b) for side in (runs, reference) for i, a in enumerate(side) for b in side[i + 1:]]
        own = min(placebo) if placebo else total
        now = max(equal_answers(a, b) for a in runs for b in reference)
        rows.append({"part": "coherence", "figure": "equal_answers", "now": now, "reference": own, "noise": 2,
                     "verdict": "same" if now >= own - 2 else "different"})
    return rows


def text_of(result):
    lines = []
    for part, values_of in result["runs"][-1].items():
        if "skipped" in values_of:
            lines.append(f"{part}: skipped: {values_of['skipped']}")
        elif part == "acceptance":
            lines.append(f"acceptance: length {values_of['accepted_length']:.2f}, rate {values_of['acceptance_rate']:.1%}")
        elif part == "speed":
            lines.append(f"speed: {values_of['tokens_per_second']:.1f} tokens/s")
        else:
            first = next(iter(values_of))
            lines.append(f"{part}: {values_of[first]} of {values_of['of']} {first}")
            if part == "coherence":
                lines += [f"  prompt {n + 1}: {problem}" for n, problem in enumerate(values_of["problems"]) if problem]
            if part == "needle":
                lines += [f"  {row['words']} words, depth {row['depth']:.0%}: lost" for row in values_of["rows"]
                          if not row["found"]]
    for row in result.get("comparison", []):
        lines.append(f"{row['verdict']}: {row['part']} {row['figure']} {row['now']:.4g}, reference {row['reference']:.4g} "
                     f"(noise {row['noise']:.3g})")
    if "verdict" in result:
        lines.append(f"verdict: {result['verdict']}")
    return "\n".join(lines)


def words_list(text):
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if not numbers or min(numbers) < 10:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of word counts like 500,4000")
    return numbers


def parts_list(text):
    parts = text.split(",")
    for part in parts:
        if part not in PARTS:
            raise argparse.ArgumentTypeError(f"{part!r} is not one of {', '.join(PARTS)}")
    return parts


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="http://127.0.0.1:8000", help="the server (default %(default)s)")
    parser.add_argument("--model", help="model to ask (default: the first that the server lists)")
    parser.add_argument("--only", type=parts_list, default=list(PARTS), metavar="PART,...", help="only these parts")
    parser.add_argument("--needle-words", type=words_list, default=[500, 4000], metavar="N,...",
                        help="lengths of the needle's texts in words (default 500,4000)")
    parser.add_argument("--repeat", type=int, default=None, metavar="N",
                        help="runs (default 1; 2 with --record and --compare, for the noise)")
    parser.add_argument("--timeout", type=float, default=600, help="seconds for one answer (default %(default)s)")
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--record", metavar="FILE", help="keep the results as a reference")
    group.add_argument("--compare", metavar="FILE", help="compare with a reference")
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress")
    options = parser.parse_args()
    if options.repeat is None:
        options.repeat = 2 if options.record or options.compare else 1
    if options.repeat < 1:
        parser.error("--repeat must be at least 1")
    if not options.url.startswith(("http://", "https://")):
        parser.error("--url must begin with http:// or https://")
    return options


def load_reference(path):
    try:
        with open(path, encoding="utf-8") as file:
            reference = json.load(file)
        if reference["kind"] != "planesmith-probe" or not reference["runs"]:
            raise KeyError
        return reference["runs"]
    except (OSError, ValueError) as error:
        raise Failure(f"{path}: {reason(error)}") from None
    except (KeyError, TypeError):
        raise Failure(f"{path}: is not a reference made by --record") from None


def main():
    options = arguments()
    result = {"command": "probe", "ok": True, "exit": 0}
    try:
        reference = load_reference(options.compare) if options.compare else None
        server = Server(options.url, options.model, options.timeout)
        result.update(kind="planesmith-probe", model=server.model, runs=[])
        for _ in range(options.repeat):
            result["runs"].append(run_once(server, options))
        if reference:
            result["comparison"] = compare(result["runs"], reference)
            if not result["comparison"]:
                raise Failure(f"{options.compare}: has no figure in common with this run")
            verdicts = [row["verdict"] for row in result["comparison"]]
            result["verdict"] = "worse" if "worse" in verdicts else "better" if "better" in verdicts else "same"
            if result["verdict"] == "worse":
                result.update(ok=False, exit=3)
        if options.record:
            temporary = options.record + ".tmp"
            with open(temporary, "w", encoding="utf-8") as file:
                json.dump({key: result[key] for key in ("kind", "model", "runs")}, file, indent=1)
            os.replace(temporary, options.record)
    except (Failure, OSError) as error:
        message = f"{error.filename}: {reason(error)}" if getattr(error, "filename", None) else str(error)
        print(f"probe.py: {message}", file=sys.stderr)
        result.update(ok=False, exit=1, error={"code": "failed", "message": message})
    if options.json:
        print(json.dumps(result))
    elif result["exit"] != 1:
        print(text_of(result))
    return result["exit"]


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
