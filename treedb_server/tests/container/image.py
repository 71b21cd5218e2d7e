"""Builds and runs the image of treedb_server/docker/Dockerfile without a container daemon.

The instructions of the last stage are carried out on a root file system of Debian that debootstrap makes: RUN and the
commands of the image in a chroot, COPY from this repository, and from the build stage the binary that is tested. What
RUN leaves is kept for the next run, as the layers of a daemon are. A container is a process in mount, PID, network, IPC and
UTS namespaces of its own, without capabilities, whose only writable directories are its volume and /tmp.
"""
import hashlib
import json
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
CACHE = ROOT / "target/clients/images"
DOCKERFILE = ROOT / "treedb_server/docker/Dockerfile"


def run(*command, **options):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, **options)
    assert done.returncode == 0, (command, done.stdout[-2000:], done.stderr[-2000:])
    return done.stdout


def instructions():
    """Of the last stage: (name, rest of the line)."""
    text = "\n".join(line for line in DOCKERFILE.read_text().splitlines() if not line.startswith("#"))
    found = [line.split(None, 1) for line in text.replace("\\\n", " ").splitlines() if line.strip()]
    last = max(at for at, (name, _) in enumerate(found) if name == "FROM")
    return [(name, rest) for name, rest in found[last:]]


def debian(release):
    """A root file system of Debian."""
    folder = CACHE / f"debian-{release}"
    if not folder.exists():
        making = CACHE / f"debian-{release}.making"
        shutil.rmtree(making, ignore_errors=True)
        if shutil.which("debootstrap") is None:
            run(ROOT / "scripts/setup.sh", "debootstrap")
        run("debootstrap", "--variant=minbase", release, making, "http://deb.debian.org/debian")
        making.rename(folder)
    return folder


class Image:
    """The image: its root file system and its settings."""

    def __init__(self, folder, binary):
        CACHE.mkdir(parents=True, exist_ok=True)
        self.settings = {"env": {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}}
        steps = instructions()
        (_, source), *steps = steps
        distribution, release = source.split(":")
        assert distribution == "debian"
        layers = [rest for name, rest in steps if name == "RUN"]
        key = hashlib.sha256(json.dumps([release, layers]).encode()).hexdigest()[:16]
        layer = CACHE / f"layer-{key}"
        if not layer.exists():
            making = CACHE / f"layer-{key}.making"
            shutil.rmtree(making, ignore_errors=True)
            run("cp", "-a", debian(release.removesuffix("-slim")), making)
            shutil.copy("/etc/resolv.conf", making / "etc/resolv.conf")
            for command in layers:
                run("chroot", making, "/bin/sh", "-c", command, env={**self.settings["env"], "DEBIAN_FRONTEND": "noninteractive"})
            making.rename(layer)
        self.root = folder / "root"
        run("cp", "-a", layer, self.root)
        for name, rest in steps:
            match name:
                case "COPY" if rest.startswith("--from=build "):
                    self.copy(binary, rest.split()[-1])
                case "COPY":
                    self.copy(ROOT / rest.split()[0], rest.split()[1])
                case "ENV":
                    self.settings["env"].update(pair.split("=", 1) for pair in shlex.split(rest))
                case "ENTRYPOINT" | "CMD":
                    self.settings[name] = json.loads(rest)
                case "HEALTHCHECK":
                    self.settings[name] = json.loads(rest[rest.index("CMD") + 3:])
                case "USER" | "VOLUME" | "EXPOSE" | "STOPSIGNAL":
                    self.settings[name] = rest
                case "RUN":
                    pass
                case _:
                    raise AssertionError(f"the tests do not know the instruction {name}")

    def copy(self, source, target):
        shutil.copy(source, self.root / target.lstrip("/"))
        (self.root / target.lstrip("/")).chmod(0o755)


class Container:
    """One process of the image, with a network and a volume of its own."""

    #: Of the container's network, and not loopback: what a published port reaches.
    ADDRESS = "10.77.0.2"

    def __init__(self, image, volume, env=(), command=None, files=()):
        self.image = image
        user = image.settings["USER"]
        uid = next(line.split(":")[2] for line in (image.root / "etc/passwd").read_text().splitlines()
                   if line.startswith(f"{user}:"))
        volume.mkdir(exist_ok=True)
        os.chown(volume, int(uid), int(uid))
        os.chmod(volume, 0o700)
        binds = [(volume, image.settings["VOLUME"]), *files]
        for _, target in binds[1:]:
            at = image.root / target.lstrip("/")
            at.parent.mkdir(parents=True, exist_ok=True)
            at.touch()
        mounts = "".join(f"mount --bind {shlex.quote(str(source))} {image.root}{target}\n" for source, target in binds)
        self.script = (
            f"set -e\nmount --bind {image.root} {image.root}\nmount -o remount,bind,ro {image.root}\n"
            f"mount -t proc proc {image.root}/proc\nmount -t tmpfs tmpfs {image.root}/tmp\n"
            f"mount -t tmpfs tmpfs {image.root}/dev\nln -s /proc/self/fd {image.root}/dev/fd\n"
            f"mknod -m 666 {image.root}/dev/null c 1 3\nmknod -m 666 {image.root}/dev/urandom c 1 9\n"
            f"{mounts}ip link set lo up\nip address add {self.ADDRESS}/24 dev lo\n")
        self.env = {**image.settings["env"], **dict(env)}
        self.inside = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--bounding-set=-all", "--inh-caps=-all",
                       "--no-new-privs", "--"]
        self.process = subprocess.Popen(
            ["unshare", "--mount", "--pid", "--net", "--ipc", "--uts", "--fork", "bash", "-c",
             self.script + f"exec chroot {image.root} \"$@\"", "container", *self.inside,
             *image.settings["ENTRYPOINT"], *(command or image.settings["CMD"])],
            env=self.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def pid(self):
        """The process as this machine numbers it: the child of `unshare`."""
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        while True:
            # Before it has one, and after it has ended.
            assert self.process.poll() is None, self.process.communicate(timeout=30)
            if found := children.read_text().split():
                return int(found[0])
            time.sleep(0.01)

    def healthy(self):
        """What the health check of the image says."""
        done = subprocess.run(
            ["nsenter", "--target", str(self.pid()), "--mount", "--pid", "--net", f"--root={self.image.root}", "--wd=/",
             *self.inside, "timeout", "--signal=KILL", "5", *self.image.settings["HEALTHCHECK"]],
            env=self.env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=60)
        return done.returncode == 0

    def in_its_network(self, *command, **options):
        return subprocess.run(["nsenter", "--target", str(self.pid()), "--net", *command], capture_output=True, text=True,
                              timeout=60, **options)

    def stop(self):
        """SIGTERM to the process, as `docker stop` sends it; its status and what it wrote."""
        if self.process.poll() is None:
            run("kill", "-TERM", str(self.pid()))
        out, error = self.process.communicate(timeout=30)
        return self.process.returncode, out, error

    def kill(self):
        """What is left of it at the end of a test."""
        if self.process.poll() is None:
            # `unshare` cannot take its child along, which has changed its user.
            os.kill(self.pid(), signal.SIGKILL)
            self.process.communicate(timeout=30)
