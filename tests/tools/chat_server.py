"""A scripted OpenAI-compatible server on loopback for the tests of probe.py: chat_server.py PORT-FILE [MODE...].

Modes change what it answers: dumb (arithmetic and needles wrong), loop (broken text), slow, nodrafts, noisy."""
import http.server
import json
import re
import sys
import time

modes = set(sys.argv[2:])
counters = {"accepted_tokens": 0, "draft_tokens": 0, "drafts": 0}
ANSWERS = {"shop sells pens": 29, "tank holds": 40, "train leaves": 165, "field is": 308, "Start with 17": 61}


def answer(prompt, tokens):
    if "loop" in modes:
        return "and again " * 60
    for start, number in ANSWERS.items():
        if start in prompt:
            return f"Step by step we find:\n{number + 1 if 'dumb' in modes else number}"
    needle = re.search(r"The passphrase is ([a-z-]+)\.", prompt)
    if needle:
        return "I do not know." if "dumb" in modes else needle[1]
    words = [f"{prompt.split()[n % len(prompt.split())]}{n}" for n in range(min(tokens, 80))]
    return " ".join(words)


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def reply(self, body, kind="application/json"):
        body = body.encode()
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        if self.path == "/v1/models":
            return self.reply(json.dumps({"data": [{"id": "scripted"}]}))
        if self.path == "/metrics" and "nodrafts" not in modes:
            lines = [f'vllm:spec_decode_num_{name}_total{{engine="0"}} {value}.0' for name, value in counters.items()]
            return self.reply("# HELP x\n" + "\n".join(lines) + "\n", "text/plain")
        self.send_error(404)

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        prompt, tokens = request["messages"][0]["content"], request["max_tokens"]
        counters["drafts"] += 100
        counters["draft_tokens"] += 200
        counters["accepted_tokens"] += 60 if "dumb" in modes else 140
        time.sleep(tokens * (0.0004 if "slow" in modes else 0.0001))
        self.reply(json.dumps({"choices": [{"message": {"role": "assistant", "content": answer(prompt, tokens)}}],
                               "usage": {"completion_tokens": tokens}}))


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
with open(sys.argv[1], "w") as file:
    file.write(str(server.server_port))
server.serve_forever()
