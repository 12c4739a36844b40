"""A Hugging Face hub for tests, on loopback: what `hf upload`, `hf download` and our programs ask one for.

hub_server.py DIR PORTFILE: serves DIR/{models,datasets}/OWNER/REPO/REVISION/..., a directory a revision ("/" in its name
as "%2F"); everything below DIR as plain files under /files/. Large files are redirected to another host, as the hub does
it: localhost, where this is 127.0.0.1; a token that comes along there is an error. Writes its port number to PORTFILE. What goes wrong is
read anew for each request from DIR/.trouble, a line each; "*N" at the end of a line: only the first N times.
  drop N             close the connection after N bytes of a file, though more were announced
  stall N            send nothing any more after N bytes of a file
  corrupt            flip a bit in the first byte of what is sent of a file
  corrupt-name TEXT  the same, of files whose name holds this text only
  noranges           ignore ranges
  token T            refuse requests without this token (not those for content elsewhere, which must come without)
  status N [S]       answer every request for a file with this status, and Retry-After: S
  api-status N [S]   the same for all other requests
  link-host URL      pages name their successors on this server
  endless            every page has a successor
  rate N             no connection gets more bytes a second
  corrupt-upload     flip a bit in what is uploaded
HUB_CERTIFICATE=FILE (a certificate with its key) makes it an https server, of one host.
Each request is a line of DIR/.requests: METHOD HOST PATH, the range that was asked for, "token" where one came.
"""
import base64
import ctypes
import hashlib
import http.server
import json
import os
import shutil
import signal
import socketserver
import ssl
import sys
import threading
import time
import urllib.parse

root, port_file = sys.argv[1], sys.argv[2]
PAGE = int(os.environ.get("HUB_PAGE", "2"))  # entries
CERTIFICATE = os.environ.get("HUB_CERTIFICATE")
SCHEME, ELSEWHERE = ("https", "127.0.0.1") if CERTIFICATE else ("http", "localhost")
lock = threading.Lock()
used = {}  # how often a line of .trouble has been obeyed
digests = {}


def trouble():
    """What shall go wrong: name -> arguments."""
    try:
        with open(os.path.join(root, ".trouble")) as lines:
            return {line.split()[0]: line.split()[1:] for line in lines if line.strip()}
    except FileNotFoundError:
        return {}


def wrong(name):
    """The arguments of this trouble where it is due now, else None. Counts."""
    arguments = trouble().get(name)
    if arguments is None:
        return None
    if arguments and arguments[-1].startswith("*"):
        with lock:
            key = (name, *arguments, os.stat(os.path.join(root, ".trouble")).st_mtime_ns)
            used[key] = used.get(key, 0) + 1
            if used[key] > int(arguments[-1][1:]):
                return None
        arguments = arguments[:-1]
    return arguments


def is_large(name):
    """Whether a file is kept as LFS."""
    return not name.endswith((".json", ".md", ".txt", ".gitattributes")) and "SHA256SUMS" not in name


def digest_of(path, kind):
    status = os.stat(path)
    key = (path, status.st_size, status.st_mtime_ns, status.st_ino, kind)
    if key not in digests:
        digest = hashlib.sha256() if kind == "sha256" else hashlib.sha1(b"blob %d\0" % status.st_size)
        with open(path, "rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
        digests[key] = digest.hexdigest()
    return digests[key]


class Repo:
    """A repository at a revision."""

    def __init__(self, kind, name, revision="main"):
        self.kind, self.name = kind, name
        self.top = os.path.join(root, kind, name)
        if len(revision) == 40 and revision.startswith("c0"):  # our commits name their revision
            revision = bytes.fromhex(revision[2:]).rstrip(b"\0").decode()
        self.revision = revision
        self.dir = os.path.join(self.top, urllib.parse.quote(revision, safe=""))

    def commit(self):
        return ("c0" + self.revision.encode().hex()).ljust(40, "0")[:40]

    def exists(self):
        return os.path.isdir(self.dir)

    def files(self):
        found = []
        for place, _, names in os.walk(self.dir):
            found += [os.path.relpath(os.path.join(place, name), self.dir) for name in names]
        return sorted(found)

    def path(self, name):
        return os.path.join(self.dir, name)

    def entry(self, name):
        path = self.path(name)
        size = os.path.getsize(path)
        entry = {"type": "file", "oid": digest_of(path, "git"), "size": size, "path": name}
        if is_large(name):
            entry["lfs"] = {"oid": digest_of(path, "sha256"), "size": size, "pointerSize": 134}
        return entry


class Hub(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def reply(self, status, body=b"", **headers):
        if isinstance(body, (dict, list)):
            body = json.dumps(body).encode()
            headers.setdefault("Content_Type", "application/json")
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def body(self):
        if "Content-Length" in self.headers:
            return self.rfile.read(int(self.headers["Content-Length"]))
        data = b""
        while size := int(self.rfile.readline(), 16):
            data += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return data

    def handle_any(self):
        url = urllib.parse.urlparse(self.path)
        self.query = urllib.parse.parse_qs(url.query)
        self.parts = [urllib.parse.unquote(part) for part in url.path.strip("/").split("/")]
        token = self.headers.get("Authorization")
        with lock, open(os.path.join(root, ".requests"), "a") as requests:
            requests.write(f"{self.command} {self.headers.get('Host')} {self.path} {self.headers.get('Range', '-')}{' token' if token else ''}\n")
        self.data = self.body() if self.command in ("POST", "PUT") else b""
        try:
            self.answer(token)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = handle_any

    def answer(self, token):
        parts = self.parts
        is_file = parts[0] in ("cdn", "files") or "resolve" in parts[2:4]
        if parts[0] == "cdn":
            if token and self.headers.get("Host", "").startswith("localhost"):
                return self.reply(400, b"the token came along")
        elif (wanted := trouble().get("token")) and token != "Bearer " + wanted[0]:
            return self.reply(401, X_Error_Message="Invalid username or password.")
        if failure := wrong("status" if is_file else "api-status"):
            return self.reply(int(failure[0]), **({"Retry_After": failure[1]} if failure[1:] else {}))
        if parts[0] == "files":
            return self.send(os.path.join(root, *parts[1:]))
        if parts[0] == "cdn":
            return self.send(Repo(parts[1], "/".join(parts[2:4]), urllib.parse.unquote(parts[4])).path("/".join(parts[5:])))
        if parts[0] == "lfs":
            return self.store_object(parts[1])
        if parts[0] == "api":
            return self.api(parts[1:])
        kind = parts.pop(0) if parts[0] == "datasets" else "models"
        if parts[1].endswith(".git"):
            return self.batch()
        if parts[2:3] == ["resolve"]:
            return self.resolve(Repo(kind, "/".join(parts[:2]), parts[3]), "/".join(parts[4:]))
        return self.reply(404)

    def api(self, parts):
        if parts[0] == "whoami-v2":
            return self.reply(200, {"type": "user", "name": "me", "fullname": "me", "orgs": [], "auth": {}})
        if parts[0] == "validate-yaml":
            return self.reply(200, {"errors": [], "warnings": []})
        if parts == ["repos", "create"]:
            asked = json.loads(self.data)
            kind = asked.get("type", "model") + "s"
            name = (asked.get("organization") or "me") + "/" + asked["name"]
            repo = Repo(kind, name)
            if os.path.isdir(repo.top):
                return self.reply(409, {"error": "You already created this model repo", "url": self.url("/" + name)})
            os.makedirs(repo.dir)
            if asked.get("private") or asked.get("visibility") == "private":
                with open(os.path.join(repo.top, ".private"), "w"):
                    pass
            return self.reply(200, {"url": self.url("/" + name), "name": name, "id": name})
        kind, name, parts = parts[0], "/".join(parts[1:3]), parts[3:]
        if not os.path.isdir(Repo(kind, name).top):
            return self.reply(404, X_Error_Code="RepoNotFound", X_Error_Message="Repository not found")
        if parts[:1] == ["refs"]:
            branches = [urllib.parse.unquote(each) for each in os.listdir(Repo(kind, name).top) if not each.startswith(".")]
            return self.reply(200, {"branches": [{"name": each, "ref": "refs/heads/" + each, "targetCommit": Repo(kind, name, each).commit()} for each in branches], "tags": [], "converts": []})
        repo = Repo(kind, name, parts[1] if parts[1:] else "main")
        if parts[:1] == ["branch"]:
            if repo.exists():
                return self.reply(409, {"error": "Reference already exists"})
            shutil.copytree(Repo(kind, name).dir, repo.dir)
            return self.reply(200, b"")
        if not repo.exists():
            return self.reply(404, X_Error_Code="RevisionNotFound", X_Error_Message="Invalid rev id: " + repo.revision)
        if not parts or parts[0] == "revision":
            return self.reply(200, {"id": name, "modelId": name, "sha": repo.commit(), "private": False, "tags": [], "downloads": 0, "likes": 0, "siblings": [{"rfilename": each} for each in repo.files()]})
        if parts[0] == "tree":
            return self.tree(repo, "/".join(parts[2:]))
        if parts[0] == "paths-info":
            asked = json.loads(self.data) if self.headers.get("Content-Type", "").startswith("application/json") else urllib.parse.parse_qs(self.data.decode())
            return self.reply(200, [repo.entry(each) for each in asked.get("paths", []) if os.path.isfile(repo.path(each))])
        if parts[0] == "preupload":
            return self.reply(200, {"files": [{"path": each["path"], "uploadMode": "lfs" if is_large(each["path"]) else "regular", "shouldIgnore": False, "oid": digest_of(repo.path(each["path"]), "git") if os.path.isfile(repo.path(each["path"])) else None} for each in json.loads(self.data)["files"]]})
        if parts[0] == "commit":
            return self.commit(repo)
        return self.reply(404)

    def url(self, path):
        return f"{SCHEME}://{self.headers.get('Host')}{path}"

    def tree(self, repo, below):
        names = [name for name in repo.files() if not below or name.startswith(below + "/")]
        begin = int(self.query.get("cursor", ["0"])[0])
        headers = {}
        if begin + PAGE < len(names) or "endless" in trouble():
            page = f"{urllib.parse.urlparse(self.path).path}?recursive=true&cursor={begin + PAGE}"
            server = trouble().get("link-host", [self.url("")])[0]
            headers["Link"] = f'<{server}{page}>; rel="next"'
        self.reply(200, [repo.entry(name) for name in names[begin : begin + PAGE]], **headers)

    def resolve(self, repo, name):
        path = repo.path(name)
        if not os.path.isfile(path):
            missing = "EntryNotFound" if repo.exists() else "RevisionNotFound"
            return self.reply(404, X_Error_Code=missing, X_Error_Message="Entry not found")
        headers = {"X_Repo_Commit": repo.commit()}
        if not is_large(name):
            return self.send(path, ETag=f'"{digest_of(path, "git")}"', **headers)
        headers.update(X_Linked_Size=str(os.path.getsize(path)), X_Linked_ETag=f'"{digest_of(path, "sha256")}"')
        place = urllib.parse.quote("/".join(["", "cdn", repo.kind, repo.name, urllib.parse.quote(repo.revision, safe=""), name]))
        host = f"{SCHEME}://{ELSEWHERE}:{self.server.server_address[1]}"
        self.reply(302, Location=host + place + "?signature=secret", **headers)

    def store_object(self, oid):
        if hashlib.sha256(self.data).hexdigest() != oid:
            return self.reply(400, b"other content")
        os.makedirs(os.path.join(root, ".objects"), exist_ok=True)
        with open(os.path.join(root, ".objects", oid), "wb") as out:
            out.write(self.data)
        self.reply(200)

    def batch(self):
        objects = []
        for each in json.loads(self.data)["objects"]:
            there = os.path.exists(os.path.join(root, ".objects", each["oid"]))
            actions = {} if there else {"actions": {"upload": {"href": self.url("/lfs/" + each["oid"]), "header": {}}}}
            objects.append({**each, "authenticated": True, **actions})
        self.reply(200, {"transfer": "basic", "objects": objects}, Content_Type="application/vnd.git-lfs+json")

    def commit(self, repo):
        for line in self.data.decode().splitlines():
            item = json.loads(line)
            value = item["value"]
            if item["key"] not in ("file", "lfsFile", "deletedFile", "deletedFolder"):
                continue
            path = repo.path(value["path"])
            if item["key"].startswith("deleted"):
                shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)
                continue
            os.makedirs(os.path.dirname(path), exist_ok=True)
            if item["key"] == "file":
                with open(path + ".new", "wb") as out:
                    out.write(base64.b64decode(value["content"]))
            else:
                shutil.copyfile(os.path.join(root, ".objects", value["oid"]), path + ".new")
                if wrong("corrupt-upload") is not None:
                    with open(path + ".new", "r+b") as out:
                        out.write(bytes([out.read(1)[0] ^ 1]))
            os.rename(path + ".new", path)
        with lock, open(os.path.join(root, ".commits"), "a") as commits:
            commits.write(f"{repo.name} {repo.revision} {json.loads(self.data.decode().splitlines()[0])['value'].get('summary', '')}\n")
        self.reply(200, {"success": True, "commitOid": repo.commit(), "commitUrl": self.url(f"/{repo.name}/commit/{repo.commit()}"), "hookOutput": ""})

    def send(self, path, **headers):
        """A file, or the range of it that was asked for."""
        try:
            file = open(path, "rb")
        except OSError:
            return self.reply(404)
        with file:
            size = os.fstat(file.fileno()).st_size
            begin, end, status = 0, size, 200
            asked = self.headers.get("Range", "")
            if asked.startswith("bytes=") and wrong("noranges") is None:
                first, last = asked[6:].split("-")
                begin, end, status = int(first), min(int(last) + 1 if last else size, size), 206
                if begin >= size:
                    return self.reply(416, Content_Range=f"bytes */{size}")
            self.send_response(status)
            for key, value in headers.items():
                self.send_header(key.replace("_", "-"), value)
            self.send_header("Content-Length", str(end - begin))
            self.send_header("Accept-Ranges", "bytes")
            if status == 206:
                self.send_header("Content-Range", f"bytes {begin}-{end - 1}/{size}")
            self.end_headers()
            if self.command != "HEAD":
                self.send_bytes(file, begin, end, path)

    def send_bytes(self, file, begin, end, path):
        name = trouble().get("corrupt-name", [None])[0]
        if begin < end and ((name and name in path and wrong("corrupt-name") is not None) or wrong("corrupt") is not None):
            self.wfile.write(bytes([os.pread(file.fileno(), 1, begin)[0] ^ 1]))
            begin += 1
        last = end
        for name in ("drop", "stall"):
            if limit := trouble().get(name):
                if begin + int(limit[0]) < end and wrong(name) is not None:
                    last = begin + int(limit[0])
                    break
        rate = int(trouble().get("rate", ["0"])[0])
        self.wfile.flush()
        started, at = time.monotonic(), begin
        while at < last:
            size = min(last - at, rate // 50 if rate else 4 << 20)
            if CERTIFICATE:
                sent = self.wfile.write(os.pread(file.fileno(), size, at))
            else:
                sent = os.sendfile(self.connection.fileno(), file.fileno(), at, size)
            if sent == 0:
                break
            at += sent
            if rate:
                time.sleep(max(0, (at - begin) / rate - (time.monotonic() - started)))
        if last < end:
            if name == "stall":
                time.sleep(120)
            self.close_connection = True


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def server_bind(self):  # HTTPServer's own looks up a host name, which can take its time
        socketserver.TCPServer.server_bind(self)

    def handle_error(self, request, client_address):
        if not isinstance(sys.exc_info()[1], (ConnectionError, ssl.SSLError)):
            super().handle_error(request, client_address)


def more_processes(count):
    """For benchmarks: one interpreter does not keep up with sixteen connections. They know all digests, and end with this one."""
    for kind in ("models", "datasets"):
        for top, revisions, _ in os.walk(os.path.join(root, kind)):
            if os.path.relpath(top, os.path.join(root, kind)).count("/") == 1:
                for revision in revisions:
                    repo = Repo(kind, os.path.relpath(top, os.path.join(root, kind)), urllib.parse.unquote(revision))
                    for name in repo.files():
                        repo.entry(name)
    for _ in range(count - 1):
        if os.fork() == 0:
            ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG
            server.serve_forever()


server = Server(("127.0.0.1", 0), Hub)
if CERTIFICATE:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
if "HUB_PROCESSES" in os.environ:
    more_processes(int(os.environ["HUB_PROCESSES"]))
with open(port_file + ".tmp", "w") as out:
    out.write(str(server.server_address[1]))
os.rename(port_file + ".tmp", port_file)
server.serve_forever()
