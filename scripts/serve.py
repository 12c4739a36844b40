"""From a serving profile to the container that serves: what scripts/serve.sh does. Options are explained there."""
import csv
import io
import json
import os
import re
import shlex
import subprocess
import sys

HERE = os.path.dirname(os.path.realpath(__file__))
PREFIX = "VLLM_MOE_W2"


class Wrong(Exception):
    """Wrong use: exit 2."""


class Failed(Exception):
    """Exit 1."""


def say(text):
    print("".join(c if c.isprintable() else "\\x%02x" % ord(c) for c in "serve.sh: " + text), file=sys.stderr)


def data_directory(name):
    """The directory of that name in the source tree or an installation, beside scripts/."""
    for directory in (os.path.join(HERE, "..", "manifests", name), os.path.join(HERE, "..", name)):
        if os.path.isdir(directory):
            return directory
    raise Failed("there is no directory of %s profiles beside %s" % (name, HERE))


def profiles():
    directory = data_directory("serve")
    return {file[:-5]: os.path.join(directory, file) for file in sorted(os.listdir(directory)) if file.endswith(".json")}


def read_profile(name):
    path = name if "/" in name or name.endswith(".json") else profiles().get(name)
    if path is None:
        raise Wrong("'%s' is not a profile; the profiles are: %s" % (name, ", ".join(profiles())))
    try:
        if os.path.getsize(path) > 1 << 20:
            raise ValueError("it is larger than a profile can be")
        with open(path, encoding="utf-8") as file:
            profile = json.load(file)
        for key in ("name", "summary", "model", "mode", "world", "environment", "arguments", "engine", "needs", "container"):
            profile[key]
        for part, keys in (("engine", ("commit",)), ("needs", ("gpus", "gpu_memory_gib")),
                           ("container", ("checkpoint", "planescache", "store", "gpus", "network", "ipc"))):
            for key in keys:
                profile[part][key]
        return profile
    except KeyError as error:
        raise Failed("%s is not a serving profile: it lacks %s" % (path, error)) from None
    except (OSError, ValueError, TypeError) as error:
        raise Failed("%s is not a serving profile: %s" % (path, error)) from None


def list_profiles(options):
    for path in profiles().values():
        profile = read_profile(path)
        if options.planescache is not None or options.store is not None:
            if not serves(options, profile):
                continue
        measured, needs = profile.get("measured", {}), profile["needs"]
        print("%s\n  %s" % (profile["name"], profile["summary"]))
        print("  %s, mode %s, world %d; %d GPU%s of %g GiB%s; engine %s" % (
            profile["model"], profile["mode"], profile["world"], needs["gpus"], "" if needs["gpus"] == 1 else "s",
            needs["gpu_memory_gib"],
            ", %g GiB of host memory" % needs["host_memory_gib"] if "host_memory_gib" in needs else "",
            profile["engine"]["commit"]))
        figures = ["%g tok/s" % measured["decode_tokens_per_second"]] if "decode_tokens_per_second" in measured else []
        figures += ["quality " + measured["quality"]] if "quality" in measured else []
        figures += [measured["gpu_memory"]] if "gpu_memory" in measured else []
        if figures:
            print("  %s (%s; %s)" % ("; ".join(figures), measured["conditions"], measured["source"]))


class Options:
    VALUES = {"--checkpoint": "checkpoint", "--planescache": "planescache", "--store": "store", "--ckpt-id": "ckpt_id",
              "--image": "image", "--run": "run"}

    def __init__(self, words):
        self.profile = self.checkpoint = self.planescache = self.store = self.ckpt_id = self.run = None
        self.image = os.environ.get("PLANESMITH_IMAGE") or "vllm-moet"
        self.compose = self.env_file = None  # "": standard output
        self.list, self.set, self.arguments = False, {}, []
        words = list(words)
        while words:
            word = words.pop(0)
            if word == "--":
                self.arguments, words = words, []
                continue
            name, equals, value = word.partition("=")
            if name in ("--compose", "--env-file"):
                if equals and not value:
                    raise Wrong(name + " names no file")
                setattr(self, name[2:].replace("-", "_"), value)
            elif name in self.VALUES or name == "--set":
                if not equals:
                    if not words:
                        raise Wrong(name + " needs a value")
                    value = words.pop(0)
                if not value:
                    raise Wrong(name + " is empty")
                if name == "--set":
                    self.set_variable(value)
                else:
                    setattr(self, self.VALUES[name], value)
            elif word == "--list":
                self.list = True
            elif word.startswith("-") or self.profile is not None:
                raise Wrong("'%s' is neither a profile nor an option" % word)
            else:
                self.profile = word
        if not self.list:
            if self.profile is None:
                raise Wrong("name a profile; --list shows them")
            if self.checkpoint is None or (self.planescache is None and self.store is None):
                raise Wrong("--checkpoint, and --planescache or --store, are needed")
            if [self.run, self.compose, self.env_file].count(None) < 2:
                raise Wrong("choose one of --run, --compose and --env-file")

    def set_variable(self, text):
        name, equals, value = text.partition("=")
        if not equals or not re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name):
            raise Wrong("--set: '%s' is not NAME=VALUE" % text)
        if name in (PREFIX + "_CKPT_ID", PREFIX + "_PLANES_CACHE", PREFIX + "_STORE_DIR"):
            raise Wrong("--set: %s follows from --ckpt-id, --planescache and --store" % name)
        self.set[name] = value


def check_command(options, profile):
    command = ["verify-ckpt-id", "check", "--world", str(profile["world"]), "--progress", "none"]
    for flag, value in (("--checkpoint", options.checkpoint), ("--planescache", options.planescache),
                        ("--store", options.store), ("--ckpt-id", options.ckpt_id)):
        command += [flag, value] if value is not None else []
    return command


def model_of(profile):
    """The profile of the model that a serving profile was made for; empty if there is none."""
    path = os.path.join(data_directory("profiles"), profile["model"] + ".json")
    if not os.path.exists(path):
        return {}
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def differences(model, found):
    """How the geometry that was found differs from the model's."""
    known, geometry = model.get("geometry", {}), found.get("geometry", {})
    return ["%s %s instead of %s" % (key, geometry[key], known[key])
            for key in ("layers", "experts", "hidden", "intermediate")
            if key in known and key in geometry and known[key] != geometry[key]]


def serves(options, profile):
    """Whether these files are what the profile needs and their model has its geometry."""
    done = subprocess.run(check_command(options, profile) + ["--for", profile["mode"], "--json", "-q"],
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return done.returncode == 0 and not differences(model_of(profile), json.loads(done.stdout))


def check(options, profile, more):
    """The result of verify-ckpt-id check, as JSON. On a miss it shows the reasons and exits."""
    command = check_command(options, profile) + more
    done = subprocess.run(command + ["--json", "-q"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode:
        sys.exit(subprocess.run(command, stdout=2).returncode or 1)
    return json.loads(done.stdout)


def warn_of_model(profile, found, checkpoint):
    """Warns if the profile was measured on another model."""
    model = model_of(profile)
    differing = differences(model, found)
    repository = re.search("/models--([^/]+?)--([^/]+)/snapshots/", os.path.realpath(checkpoint) + "/")
    if repository and "source" in model and "/".join(repository.groups()) != model["source"]:
        differing.append("/".join(repository.groups()))
    if differing:
        say("warning: %s was made for %s, this is another model (%s); its figures do not hold here" %
            (profile["name"], profile["model"], ", ".join(differing)))


def environment_of(options, profile, found):
    """The container's environment: the profile's, what these files need, and --set."""
    environment, container, needed = dict(profile["environment"]), profile["container"], found["environment"]
    for name, value in needed.items():
        environment.setdefault(name, value)
    for name, target in (("PLANES_CACHE", container["planescache"]), ("STORE_DIR", container["store"])):
        name = PREFIX + "_" + name
        environment.pop(name, None)
        if name in needed:
            environment[name] = target
    environment[PREFIX + "_CKPT_ID"] = needed[PREFIX + "_CKPT_ID"]
    environment.update(options.set)
    return environment


def link_mounts(checkpoint, target):
    """(host directory, directory in the container) for all targets of a checkpoint's links: a Hugging Face snapshot has
    links to ../../blobs, which must work in the container too."""
    mounts = {}
    for top, directories, files in os.walk(checkpoint):
        inside = os.path.normpath(os.path.join(target, os.path.relpath(top, checkpoint)))
        for name in directories + files:
            host, seen = os.path.join(top, name), inside + "/" + name
            for _ in range(40):
                if not os.path.islink(host):
                    break
                link = os.readlink(host)
                host = os.path.normpath(os.path.join(os.path.realpath(os.path.dirname(host)), link))
                seen = os.path.normpath(os.path.join(os.path.dirname(seen), link))
                if not (seen + "/").startswith(target + "/"):
                    mounts[os.path.dirname(seen)] = os.path.dirname(host)
    for place in mounts:
        if place in ("/", "/bin", "/dev", "/etc", "/lib", "/lib64", "/proc", "/sbin", "/sys", "/usr") or \
                place.startswith(("/dev/", "/etc/", "/proc/", "/sys/", "/usr/")):
            raise Failed("links of %s lead to %s, which is the container's own; copy the checkpoint with cp -rL" %
                         (checkpoint, place))
    return sorted((host, place) for place, host in mounts.items())


def mounts_of(options, profile, environment):
    """{"type", "source", "target", "read_only"} of each mount, outer ones first."""
    container, mounts = profile["container"], []

    def bind(source, target, read_only=False):
        if any(ord(c) < 32 or ord(c) == 127 for c in source):
            raise Failed("%r has control characters in its name" % source)
        mounts.append({"type": "bind", "source": source, "target": target, "read_only": read_only})

    checkpoint = os.path.realpath(options.checkpoint)
    bind(checkpoint, container["checkpoint"], True)
    for host, place in link_mounts(checkpoint, container["checkpoint"]):
        bind(host, place, True)
    if PREFIX + "_PLANES_CACHE" in environment:
        bind(os.path.realpath(options.planescache), container["planescache"])
    if PREFIX + "_STORE_DIR" in environment:
        if re.match("[0-9]+=", options.store):
            # The engine has one directory for all ranks: make one in memory and mount every rank's files into it.
            mounts.append({"type": "tmpfs", "target": container["store"]})
            for part in re.split(",(?=[0-9]+=)", options.store):
                rank, directory = part.split("=", 1)
                for file in sorted(os.listdir(directory)):
                    if re.search(r"\.rank%sof[0-9]+\." % rank, file):
                        bind(os.path.join(os.path.realpath(directory), file), container["store"] + "/" + file)
            say("note: %s is in memory, with the packs of each rank's directory in it; new heat files are lost" %
                container["store"])
        else:
            bind(os.path.realpath(options.store), container["store"])
    return mounts


def mount_word(mount):
    """A value of --mount: comma-separated, fields quoted as in CSV."""
    fields = ["type=" + mount["type"]]
    fields += ["source=" + mount["source"]] if "source" in mount else []
    fields += ["target=" + mount["target"]] + (["readonly"] if mount.get("read_only") else [])
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(fields)
    return text.getvalue()


def command_line(runtime, options, profile, environment, mounts, arguments):
    container = profile["container"]
    podman = os.path.basename(runtime).startswith("podman")
    words = [runtime, "run", "--rm"]
    if podman:
        words += [word for gpu in range(container["gpus"]) for word in ("--device", "nvidia.com/gpu=%d" % gpu)]
    else:
        words += ["--gpus", str(container["gpus"])]
    words += ["--network", container["network"], "--ipc", container["ipc"]]
    if "shm_size" in container and not (podman and container["ipc"] == "host"):  # podman refuses both
        words += ["--shm-size", container["shm_size"]]
    for mount in mounts:
        words += ["--mount", mount_word(mount)]
    for name, value in environment.items():
        words += ["--env", name + "=" + value]
    return words + [options.image] + arguments


def compose_file(options, profile, environment, mounts, arguments):
    """YAML with all values in JSON notation. $ is doubled, since compose substitutes variables."""
    container = profile["container"]
    quoted = lambda value: json.dumps(value).replace("$", "$$")
    lines = ["services:", "  engine:", "    image: " + quoted(options.image), "    network_mode: " + quoted(container["network"]),
             "    ipc: " + quoted(container["ipc"])]
    if "shm_size" in container:
        lines.append("    shm_size: " + quoted(container["shm_size"]))
    lines.append("    environment:")
    lines += ["      %s: %s" % (name, quoted(value)) for name, value in environment.items()]
    lines.append("    volumes:")
    lines += ["      - " + quoted({key: value for key, value in mount.items() if value is not False}) for mount in mounts]
    lines.append("    command:")
    lines += ["      - " + quoted(argument) for argument in arguments]
    lines.append("    deploy: " + quoted({"resources": {"reservations": {"devices": [
        {"driver": "nvidia", "count": container["gpus"], "capabilities": ["gpu"]}]}}}))
    return "\n".join(lines) + "\n"


def env_file(environment):
    for name, value in environment.items():
        if "\n" in value or "\r" in value:
            raise Failed("%s has a line break in its value, which an env file cannot contain" % name)
    return "".join("%s=%s\n" % item for item in environment.items())


def put(path, text):
    if not path:
        sys.stdout.write(text)
        return
    temporary = "%s.%d.tmp" % (path, os.getpid())
    with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644), "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(temporary, path)
    say("wrote " + path)


def main():
    options = Options(sys.argv[1:])
    if options.list:
        return list_profiles(options)
    profile = read_profile(options.profile)
    if not os.path.isdir(options.checkpoint):
        raise Failed("%s is not a directory" % options.checkpoint)
    found = check(options, profile, ["--for", profile["mode"]])
    environment = environment_of(options, profile, found)
    if options.set:
        # Another value may mean another mode, so check the whole configuration against these files.
        options.ckpt_id = environment[PREFIX + "_CKPT_ID"]
        check(options, profile, [word for item in environment.items() for word in ("--env", "%s=%s" % item)])
    for warning in found.get("warnings", []):
        say("warning: " + warning)
    warn_of_model(profile, found, options.checkpoint)
    for warning in profile.get("warnings", []):
        say("note: " + warning)
    mounts = mounts_of(options, profile, environment)
    arguments = profile["arguments"] + options.arguments
    if options.compose is not None:
        put(options.compose, compose_file(options, profile, environment, mounts, arguments))
    elif options.env_file is not None:
        put(options.env_file, env_file(environment))
    else:
        words = command_line(options.run or "docker", options, profile, environment, mounts, arguments)
        if options.run:
            sys.stdout.flush()
            try:
                os.execvp(words[0], words)
            except OSError as error:
                raise Failed("cannot run %s: %s" % (words[0], error.strerror)) from None
        print(" ".join(map(shlex.quote, words)))


if __name__ == "__main__":
    try:
        main()
    except Wrong as error:
        say(str(error))
        sys.exit(2)
    except Failed as error:
        say(str(error))
        sys.exit(1)
    except OSError as error:
        say("%s: %s" % (error.filename, error.strerror) if error.filename else str(error))
        sys.exit(1)
