"""A Hugging Face hub for tests, on loopback: tree listing (in pages of two) and resolve (with a redirect and ranges).

hub_server.py DIR PORTFILE: serves DIR as the only repository; writes its port number to PORTFILE. What goes wrong is read
anew for each request from DIR/.trouble, a line each:
  drop N      close the connection after N bytes of a file, though more were announced
  corrupt     flip a bit in the first byte of each file
  noranges    ignore ranges
  token T     refuse requests without this token
  status N    answer every request for a file with this status
Each request is a line of DIR/.requests.
"""
import hashlib
import http.server
import json
import os
import socketserver
import sys
import urllib.parse

root, port_file = sys.argv[1], sys.argv[2]


def trouble():
    try:
        with open(os.path.join(root, ".trouble")) as lines:
            return dict((line.split() + [""])[:2] for line in lines if line.strip())
    except FileNotFoundError:
        return {}


class Hub(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def reply(self, status, body=b"", **headers):
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        url = urllib.parse.urlparse(self.path)
        parts = url.path.strip("/").split("/")
        wrong = trouble()
        with open(os.path.join(root, ".requests"), "a") as requests:
            requests.write(self.path + "\n")
        if parts[0] != "cdn" and "token" in wrong and self.headers.get("Authorization") != "Bearer " + wrong["token"]:
            return self.reply(401)
        if parts[:2] == ["api", "models"] and parts[4:5] == ["tree"]:
            return self.tree(urllib.parse.parse_qs(url.query))
        if parts[2:3] == ["resolve"] and "status" in wrong:
            return self.reply(int(wrong["status"]))
        if parts[2:3] == ["resolve"]:
            return self.reply(302, Location="/cdn/" + "/".join(parts[4:]))
        if parts[0] == "cdn":
            return self.file("/".join(parts[1:]), wrong)
        return self.reply(404)

    def tree(self, query):
        names = sorted(name for name in os.listdir(root) if not name.startswith("."))
        begin = int(query.get("cursor", ["0"])[0])
        entries = []
        for name in names[begin : begin + 2]:
            with open(os.path.join(root, name), "rb") as file:
                data = file.read()
            entry = {"type": "file", "oid": "0" * 40, "size": len(data), "path": name}
            if not name.endswith(".json"):
                entry["lfs"] = {"oid": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": 134}
            entries.append(entry)
        headers = {}
        if begin + 2 < len(names):
            port = self.server.server_address[1]
            headers["Link"] = f'<http://127.0.0.1:{port}{urllib.parse.urlparse(self.path).path}?recursive=1&cursor={begin + 2}>; rel="next"'
        self.reply(200, json.dumps(entries).encode(), **headers)

    def file(self, name, wrong):
        try:
            with open(os.path.join(root, name), "rb") as file:
                data = file.read()
        except FileNotFoundError:
            return self.reply(404)
        if "corrupt" in wrong and not name.endswith(".json"):
            data = bytes([data[0] ^ 1]) + data[1:]
        begin, status = 0, 200
        requested = self.headers.get("Range", "")
        if requested.startswith("bytes=") and "noranges" not in wrong:
            begin, status = int(requested[6:].split("-")[0]), 206
            if begin >= len(data):
                return self.reply(416)
        body = data[begin:]
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        if status == 206:
            self.send_header("Content-Range", f"bytes {begin}-{len(data) - 1}/{len(data)}")
        self.end_headers()
        self.wfile.write(body[: int(wrong["drop"])] if "drop" in wrong else body)
        self.close_connection = True


class Server(http.server.ThreadingHTTPServer):
    def server_bind(self):  # HTTPServer's own looks up a host name, which can take its time
        socketserver.TCPServer.server_bind(self)


server = Server(("127.0.0.1", 0), Hub)
with open(port_file + ".tmp", "w") as out:
    out.write(str(server.server_address[1]))
os.rename(port_file + ".tmp", port_file)
server.serve_forever()
