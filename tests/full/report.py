"""Opens a report (fidelity, or memory of the tiers) in headless Chromium and looks at it the way a reader would: report.py PAGE OUTPUT-DIRECTORY.

Talks the DevTools protocol over a pipe, so that nothing but Python's own library is needed. Exits 1 with what is wrong."""
import base64, json, os, subprocess, sys, tempfile

page, out = os.path.abspath(sys.argv[1]), sys.argv[2]
problems = []


class Browser:
    def __init__(self, profile):
        to_browser, self.write = os.pipe()
        self.read, from_browser = os.pipe()
        keep = [os.dup2(to_browser, 63), os.dup2(from_browser, 64)]  # out of the way of 3 and 4
        for fd in keep:
            os.set_inheritable(fd, True)
        self.process = subprocess.Popen(
            ["bash", "-c", 'exec "$0" "$@" 3<&63 4>&64', "chromium", "--headless=new", "--no-sandbox", "--disable-gpu",
             "--disable-dev-shm-usage", "--disable-background-networking", "--disable-component-update", "--no-first-run",
             "--remote-debugging-pipe", f"--user-data-dir={profile}", "about:blank"],
            pass_fds=keep, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for fd in (to_browser, from_browser, *keep):
            os.close(fd)
        self.last, self.session, self.rest, self.events = 0, None, b"", []

    def message(self):
        while b"\0" not in self.rest:
            chunk = os.read(self.read, 1 << 20)
            if not chunk:
                sys.exit("Chromium ended")
            self.rest += chunk
        text, self.rest = self.rest.split(b"\0", 1)
        return json.loads(text)

    def call(self, method, **params):
        self.last += 1
        request = {"id": self.last, "method": method, "params": params}
        if self.session:
            request["sessionId"] = self.session
        os.write(self.write, json.dumps(request).encode() + b"\0")
        while True:
            message = self.message()
            if message.get("id") == self.last:
                if "error" in message:
                    sys.exit(f"{method}: {message['error']}")
                return message["result"]
            self.events.append(message)

    def evaluate(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            problems.append(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")


def check(what, holds):
    if not holds:
        problems.append(what)


# What a canvas shows: how many different colours. An empty one has one.
COLOURS = """(id => { const c = document.getElementById(id), d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
  return new Set(Array.from({length: d.length / 4}, (_, i) => d.slice(4 * i, 4 * i + 4).join())).size; })"""
COLUMN = "(i => [...document.querySelectorAll('#worst tbody tr')].map(row => row.cells[i].textContent))"

with tempfile.TemporaryDirectory() as profile:
    browser = Browser(profile)
    target = browser.call("Target.createTarget", url="about:blank")["targetId"]
    browser.session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
    for domain in ("Page", "Runtime", "Log", "Network"):
        browser.call(f"{domain}.enable")
    for width in (1280, 400):
        for scheme in ("light", "dark"):
            name = f"{width} px, {scheme}"
            browser.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 500)
            browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
            browser.call("Page.navigate", url="file://" + page)
            browser.evaluate("new Promise(done => { const wait = () => document.readyState === 'complete' ? "
                             "requestAnimationFrame(() => requestAnimationFrame(done)) : setTimeout(wait, 20); wait(); })")
            fidelity = browser.evaluate("document.getElementById('worst') !== null")
            for chart in ("levels", "bias", "rms", "heat") if fidelity else ("curve", "time", "layers", "used", "heat"):
                check(f"{name}: nothing is drawn in '{chart}'", browser.evaluate(f"{COLOURS}('{chart}')") > 5)
            check(f"{name}: the page is wider than the window",
                  browser.evaluate("document.documentElement.scrollWidth") <= width)
            ground = browser.evaluate("getComputedStyle(document.body).backgroundColor")
            brightness = sum(int(x) for x in ground.strip("rgb()").split(",")) / 3
            check(f"{name}: the background is {ground}", (brightness > 128) == (scheme == "light"))
            shot = browser.call("Page.captureScreenshot", captureBeyondViewport=True)
            with open(f"{out}/{'report' if fidelity else 'tiers'}-{width}-{scheme}.png", "wb") as f:
                f.write(base64.b64decode(shot["data"]))
            check(f"{name}: no file to save",
                  browser.evaluate("(() => { let got = ''; const make = URL.createObjectURL; URL.createObjectURL = b => { got = b.type; "
                                   "return make(b); }; document.getElementById('save-csv').click(); return got; })()") == "text/csv")
            if not fidelity:
                check(f"{name}: no words", len(browser.evaluate("document.getElementById('words').textContent")) > 100)
                continue
            check(f"{name}: no evidence", len(browser.evaluate("document.querySelectorAll('#evidence dd')[1].textContent")) == 64)
            check(f"{name}: no figures", len(browser.evaluate("csv()").splitlines()) == 1 + 2 * 3)
            check(f"{name}: no verdict", len(browser.evaluate("document.getElementById('verdict').textContent")) > 10)
            check(f"{name}: small text", browser.evaluate("parseFloat(getComputedStyle(document.querySelector('td')).fontSize)") >= 12)

            # Sorting: by a click, both ways, numbers as numbers.
            for column, key in (("layer", 1), ("|bias|", 3), ("tensor", 0)):
                click = f"[...document.querySelectorAll('#worst th button')].find(b => b.textContent === '{column}').click()"
                orders = []
                for _ in range(2):
                    browser.evaluate(click)
                    orders.append(browser.evaluate(f"{COLUMN}({key})"))
                as_key = str if column == "tensor" else float
                up = sorted(orders[0], key=as_key)
                check(f"{name}: sorting by {column} gives {orders}",
                      sorted(orders, key=lambda o: as_key(o[0])) == [up, up[::-1]] and up[0] != up[-1])
            before = browser.evaluate("document.getElementById('heat').toDataURL()")
            browser.evaluate("(s => { s.value = 'rms'; s.dispatchEvent(new Event('change')); })(document.getElementById('measure'))")
            check(f"{name}: the choice of what the heat map shows does nothing",
                  browser.evaluate("document.getElementById('heat').toDataURL()") != before)
    browser.session = None
    browser.call("Browser.close")
    browser.process.wait()

for event in browser.events:
    params = event.get("params", {})
    if event["method"] == "Runtime.exceptionThrown":
        problems.append(f"exception: {params['exceptionDetails'].get('text')}")
    elif event["method"] == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
        problems.append(f"console: {params['args']}")
    elif event["method"] == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
        problems.append(f"log: {params['entry']['text']}")
    elif event["method"] == "Network.requestWillBeSent" and not params["request"]["url"].startswith(("file://" + page, "data:")):
        problems.append(f"request: {params['request']['url'][:100]}")
if not any(event["method"] == "Network.requestWillBeSent" for event in browser.events):
    problems.append("the page itself was not seen being loaded, so requests would not be either")
for problem in problems:
    print(problem)
sys.exit(1 if problems else 0)
