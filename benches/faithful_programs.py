"""The programs that benches/faithful runs: command, requirements, and the parts of the output that do not depend on
the program alone, each with the reason."""

import dataclasses
import pathlib
import shutil
import subprocess

import running

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCES = ROOT / "workloads/faithful"
# Programs of the tests serve the bench too.
OF_TESTS = [ROOT / "crates" / crate / "tests/programs" for crate in ("capture", "live")]


@dataclasses.dataclass(frozen=True)
class Program:
    """One program with its arguments, run in an empty folder of its own, in which `files` were written before.

    {built} in arguments is the folder of what the bench built, {data} that of texts that it made. `needs`: commands
    that have to be there. `rules`: (pattern, text in its place, reason) for output. `loose`: files whose contents are
    not compared, each with the reason."""

    name: str
    command: tuple
    kind: str
    needs: tuple = ()
    files: tuple = ()
    rules: tuple = ()
    loose: tuple = ()
    # Why its mappings depend on more than its input; then only mappings above 64 MiB are compared, by size.
    races: str = ""
    # Why it is not a single process with mappings at its end; then no mappings are compared.
    no_maps: str = ""
    # A command that must exit with 0 before the program is run; otherwise the host lacks something.
    host: tuple = ()
    what_host_lacks: str = ""


def script(name, kind, text, *needs, **more):
    return Program(name, ("bash", "-c", text), kind, needs, **more)


_RACES = "its threads have arenas and stacks in the order in which they come"
_SPEED = (r"[0-9]+\.[0-9]+ requests per second.*", "N requests per second", "depends on the processor's time")
_PORT = (r"\b(?:pid|process) [0-9]+", "pid N", "the kernel numbers processes")
_REDIS = (
    "redis-server --port 0 --unixsocket s --save '' --appendonly no --logfile log --daemonize no & "
    "until redis-cli -s s ping >/dev/null 2>&1; do sleep 0.1; done; "
    "redis-cli -s s set key value; redis-cli -s s get key; "
    "redis-benchmark -s s -n 300 -c 4 -t set,lpush -q | tr '\\r' '\\n' | grep -o '^[A-Z]*: [0-9.]* requests.*' | tail -n 2; "
    "redis-cli -s s shutdown nosave; wait; rm -f log; echo done"
)
_MEMCACHED = """memcached -u root -s "$PWD/s" -t 2 & server=$!
until [ -S s ]; do sleep 0.1; done
python3 - <<'END'
import socket
s = socket.socket(socket.AF_UNIX); s.connect("s")
for n in range(50): s.sendall(b"set k%d 0 0 5\\r\\nvalue\\r\\n" % n); assert s.recv(99) == b"STORED\\r\\n"
s.sendall(b"get k7\\r\\n"); print(s.recv(999))
END
kill $server; wait $server; echo $?; rm -f s"""
_PIPES = """trap 'echo left' EXIT; trap 'echo told' USR1; kill -USR1 $$
seq 2000 | grep 7 | sort -r | head -n 3; (exit 9); echo $?; sleep 30 & until [[ $(</proc/$!/comm) == sleep ]]; do :; done; kill %1; wait %1 2>/dev/null; echo $?
while read -r a b; do echo "$b $a"; done < <(printf '1 2\\n3 4\\n'); cat <<< here > file; exit 6"""
_NINJA = """cat > build.ninja <<'END'
rule upper
  command = tr a-z A-Z < $in > $out
build b.txt: upper a.txt
build c.txt: upper b.txt
END
echo text > a.txt; ninja -j 2; cat c.txt; rm -f .ninja_log .ninja_deps"""
_GIT = """export GIT_AUTHOR_DATE='2020-01-01T00:00:00Z' GIT_COMMITTER_DATE='2020-01-01T00:00:00Z'
git init -q -b main r; cd r; git config user.email a@b; git config user.name n; seq 500 > a; git add a; git commit -qm one
seq 400 700 > a; git commit -qam two; git log --format='%H %s' --stat; git gc -q; git fsck --no-progress
cd ..; rm -rf r"""
_PYTHON = """import hashlib,json,re
d={i:str(i)*3 for i in range(30000)}; s=json.dumps(d); print(hashlib.sha256(s.encode()).hexdigest(),len(re.findall('77',s)))
x=bytearray(6<<20); x[::4096]=bytes(len(x)//4096); print(len(x))"""
_PYTHON_THREADS = """import threading,multiprocessing,subprocess,signal,os
t=[threading.Thread(target=lambda:sum(range(20000))) for _ in range(8)]; [a.start() for a in t]; [a.join() for a in t]
r=os.fork() or os._exit(4); print(os.waitstatus_to_exitcode(os.waitpid(r,0)[1]))
p=subprocess.run(['sh','-c','kill -SEGV $$']); print(p.returncode)
signal.signal(signal.SIGALRM,lambda *a:print('alarm')); signal.setitimer(signal.ITIMER_REAL,0.05); signal.pause()
raise SystemExit(3)"""
_NODE = """const z=require('zlib'),c=require('crypto'); let m=new Map(); for(let i=0;i<40000;i++)m.set('k'+i,i*i);
let s=0; for(const [k,v] of m)s+=v%7; const b=z.gzipSync(Buffer.alloc(300000,'abc'));
console.log(s,z.gunzipSync(b).length,c.createHash('sha1').update('x').digest('hex'));
new (require('worker_threads').Worker)('require("worker_threads").parentPort.postMessage(42)',{eval:true})
.on('message',x=>console.log(x)).on('exit',()=>process.exit(4))"""
_SQL = """create table t(a integer primary key,b text);
with recursive n(i) as (select 1 union all select i+1 from n where i<20000) insert into t select i,hex(i*7919) from n;
create index x on t(b); select count(*),sum(length(b)),max(b) from t where b>'33'; select no_such_column from t;"""
_SURROUNDINGS = """ulimit -a; umask; env | grep -v '^_=\\|^FAITHFUL\\|^SHLVL=' | sort; ls /proc/self/fd | wc -l; echo "$0 $*"; nproc
cat /proc/self/comm; tr '\\0' ' ' < /proc/self/cmdline; getconf -a | grep -c .; kill -l | head -n 2"""


def all_programs():
    """All programs, whether they are installed or not."""
    return [*_runtimes(), *_databases(), *_compilers(), *_tools(), *_packers(), *_texts(), *_others(), *_cases()]


def _runtimes():
    return [
        Program("python3", ("python3", "-c", _PYTHON), "runtime"),
        Program("python3, threads", ("python3", "-c", _PYTHON_THREADS), "runtime", races=_RACES),
        Program("node", ("node", "-e", _NODE), "runtime", races=_RACES),
        Program("java", ("java", "-Xmx64m", "-cp", "{built}", "Small"), "runtime", ("javac",), races=_RACES),
        Program(
            "java, serial",
            ("java", "-Xmx64m", "-XX:+UseSerialGC", "-Xint", "-cp", "{built}", "Small"),
            "runtime",
            ("javac",),
            races=_RACES,
        ),
        Program(
            "perl",
            (
                "perl",
                "-e",
                "my %h; $h{$_*7%10007}.=$_ for 1..40000; print join(',',(sort keys %h)[0..9]),qq(\\n); system('exit 3'); print $?>>8; die 'so'",
            ),
            "runtime",
        ),
        Program("tclsh", ("tclsh", "{data}/program.tcl"), "runtime"),
        Program(
            "ruby",
            (
                "ruby",
                "-e",
                "h=Hash.new(0);60000.times{|i|h[i%997]+=i};puts h.values.sum; Thread.new{puts 'thread'}.join; puts `echo child`; exit 4",
            ),
            "runtime",
            races="its collector takes for pointers what looks like them on the stack, so addresses say what it frees",
        ),
        Program(
            "lua",
            (
                "lua5.4",
                "-e",
                "local t={} for i=1,100000 do t[i%5003]=(t[i%5003] or 0)+i end local s=0 for i=0,5002 do s=s+t[i] end print(s) error('so')",
            ),
            "runtime",
        ),
        Program(
            "luajit",
            (
                "luajit",
                "-e",
                "local t={} for i=1,1000000 do t[i%5003]=(t[i%5003] or 0)+i end local s=0 for i=0,5002 do s=s+t[i] end print(s) os.exit(4)",
            ),
            "runtime",
        ),
        Program(
            "guile",
            (
                "guile",
                "--no-auto-compile",
                "-c",
                "(display (apply + (map (lambda (n) (* n n)) (iota 20000)))) (newline) (exit 5)",
            ),
            "runtime",
            races=_RACES,
        ),
        Program(
            "sbcl",
            (
                "sbcl",
                "--noinform",
                "--non-interactive",
                "--no-userinit",
                "--eval",
                "(progn (print (loop for n below 200000 sum (* n n))) (gc :full t) (exit :code 3))",
            ),
            "runtime",
        ),
        Program(
            "php",
            (
                "php",
                "-n",
                "-r",
                "$a=[];for($i=0;$i<60000;$i++)$a[$i%997]=($a[$i%997]??0)+$i;echo array_sum($a),md5('x'),PHP_EOL;exit(6);",
            ),
            "runtime",
        ),
        Program("ocaml", ("ocaml", "{data}/program.ml"), "runtime"),
        Program("go, stripped", ("{built}/goroutines",), "stripped", ("go",), races=_RACES),
        Program(
            "rust, stripped",
            ("{built}/arena",),
            "stripped",
            ("rustc",),
            rules=((r"thread 'doomed' \([0-9]+\)", "thread 'doomed' (N)", "the kernel numbers threads"),),
        ),
    ]


def _databases():
    return [
        Program("sqlite3", ("sqlite3", "file.db", _SQL), "database"),
        script(
            "redis",
            "database",
            _REDIS,
            "redis-server",
            "redis-benchmark",
            "redis-cli",
            rules=(_SPEED, (r"[0-9.]+ requests", "N requests", "depends on the processor's time")),
        ),
        script("memcached", "database", _MEMCACHED, "memcached", "python3"),
        Program("postgres", ("{postgres}", "--describe-config"), "database"),
    ]


def _compilers():
    return [
        Program("gcc", ("gcc", "-O1", "-c", str(ROOT / "workloads/maps.c"), "-o", "maps.o"), "compiler"),
        Program("g++", ("g++", "-O0", "-c", "{data}/program.cc", "-o", "program.o"), "compiler"),
        Program("gcc, an error", ("gcc", "-c", "{data}/program.tcl", "-x", "c", "-o", "none.o"), "compiler"),
        Program("ld", ("gcc", "-o", "maps", "{built}/maps.o", "-Wl,--build-id=none"), "compiler"),
        Program(
            "rustc",
            (
                "{rustc}",
                "--crate-type=lib",
                "--emit=metadata",
                "--crate-name",
                "small",
                "-o",
                "libsmall.rmeta",
                "{data}/program.rs",
            ),
            "compiler",
            ("rustc",),
            races=_RACES,
        ),
        Program("gofmt", ("gofmt", "-l", "-d", "{data}/program.go"), "compiler", races=_RACES),
        Program("go vet", ("go", "vet", "{data}/program.go"), "compiler", ("go",), races=_RACES),
        Program("javac", ("javac", "-J-Xmx128m", "-d", ".", str(SOURCES / "Small.java")), "compiler", races=_RACES),
        Program("clang", ("clang", "-O1", "-c", str(ROOT / "workloads/maps.c"), "-o", "maps.o"), "compiler"),
        Program("nasm", ("nasm", "-f", "elf64", "-o", "a.o", "{data}/program.asm"), "compiler"),
    ]


def _tools():
    return [
        script(
            "make",
            "build tool",
            "printf 'all: b c\\nb: a\\n\\ttr a-z A-Z < a > b\\nc: b\\n\\tcat b b > c\\nfail:\\n\\tfalse\\n' > Makefile; echo x > a; make -j2; make fail",
            "make",
        ),
        Program("cmake", ("cmake", "-P", "{data}/program.cmake"), "build tool"),
        script("ninja", "build tool", _NINJA, "ninja"),
        script("git", "build tool", _GIT, "git"),
        Program("cargo", ("{cargo}", "--version", "--verbose"), "build tool", ("cargo",)),
        Program("m4", ("m4", "-Dx=y", "{data}/program.m4"), "build tool"),
        Program("bison", ("bison", "-o", "p.c", "{data}/program.y"), "build tool"),
        Program("flex", ("flex", "-o", "l.c", "{data}/program.l"), "build tool"),
        Program(
            "gdb",
            ("gdb", "--batch", "-nx", "-ex", "info address main", "-ex", "list main", "{built}/reexec"),
            "build tool",
            races=_RACES,
        ),
        Program("objdump", ("objdump", "-h", "-d", "{built}/maps.o"), "build tool"),
    ]


def _packers():
    return [
        script("gzip", "packer", "gzip -9 < {data}/text > t.gz; gzip -dc t.gz | cksum", "gzip"),
        script(
            "xz, threads", "packer", "xz -T2 -1 --block-size=100KiB < {data}/text > t.xz; xz -dc t.xz | cksum", "xz"
        ),
        script("zstd, threads", "packer", "zstd -q -T2 -5 < {data}/text > t.zst; zstd -qdc t.zst | cksum", "zstd"),
        Program("bzip2", ("bzip2", "-k", "-c", "{data}/text"), "packer"),
        Program("tar", ("tar", "-cf", "t.tar", "--mtime=@0", "--sort=name", "-C", "{data}", "."), "packer"),
    ]


def _texts():
    return [
        Program("grep", ("grep", "-c", "-E", "(ab|ba)+[0-9]7", "{data}/text"), "text"),
        Program("sort, threads", ("sort", "--parallel=2", "-S", "8M", "-o", "sorted", "{data}/text"), "text"),
        Program(
            "awk",
            ("awk", "{ n[length($0)] += NR } END { for (k in n) s += n[k] * k; print s; exit 2 }", "{data}/text"),
            "text",
        ),
        Program("gawk", ("gawk", "{ n[substr($0, 1, 2)]++ } END { print length(n) }", "{data}/text"), "text"),
        Program("find", ("find", "{data}", "-type", "f", "-size", "+1k"), "text"),
        Program("sed", ("sed", "-n", "-e", "s/\\(a\\)\\(b\\)/\\2\\1/gp;200q", "{data}/text"), "text"),
        Program("jq", ("jq", "-c", "map(.a * 2) | add", "{data}/numbers.json"), "text"),
        Program("bc", ("bc", "-q", "{data}/program.bc"), "text"),
        Program("dc", ("dc", "-e", "2 500 ^ p 3 / p"), "text"),
        script("ed", "text", "printf '1,3p\\n2d\\nw new\\nq\\n' | ed -s {data}/text", "ed"),
        Program(
            "vim",
            ("vim", "-u", "NONE", "-es", "-c", "g/ab/s//ba/g", "-c", "w! new", "-c", "q!", "{data}/lines"),
            "text",
        ),
        script(
            "busybox",
            "text",
            "busybox sh -c 'busybox seq 300 | busybox awk \"{s+=\\$1} END {print s}\"; busybox sha1sum {data}/text; exit 3'",
            "busybox",
        ),
        script("dash", "text", "exec sh -c 'seq 100 | while read n; do :; done; echo $n; exit 5'", "sh"),
    ]


def _others():
    return [
        script("bash, pipes and traps", "shell", _PIPES),
        script("bash, what it sees", "shell", _SURROUNDINGS),
        script(
            "openssl",
            "library",
            "openssl dgst -sha256 {data}/text; openssl enc -aes-128-cbc -K 00 -iv 00 -in {data}/text | cksum; openssl prime 1000003",
            "openssl",
        ),
        Program("convert", ("convert", "-size", "120x90", "gradient:red-blue", "-blur", "0x2", "out.ppm"), "library"),
        Program(
            "ffmpeg",
            ("ffmpeg", "-v", "error", "-f", "lavfi", "-i", "testsrc=d=0.2:s=64x48", "-f", "framemd5", "-"),
            "library",
            races=_RACES,
        ),
        Program("curl", ("curl", "-sS", "-o", "got", "file://{data}/text"), "library"),
        Program("curl, an error", ("curl", "-sS", "file:///no/such/file"), "library"),
        Program("rsync", ("rsync", "-a", "--no-times", "{data}/", "copy/"), "library"),
        script(
            "chromium",
            "browser",
            "exec chromium --headless --no-sandbox --disable-gpu --user-data-dir=d --dump-dom file://{data}/page.html 2>/dev/null",
            "chromium",
            loose=((r"d/.*", "a profile of random names, of which a slower browser writes less before its end"),),
            no_maps="each of its processes leaves its own over the others', in the order in which they end",
        ),
        script(
            "setpriv", "system", "exec setpriv --reuid=65534 --clear-groups sh -c 'id -u; echo as another'", "setpriv"
        ),
        script("timeout", "system", "timeout 0.5 sleep 20; echo $?; timeout -s KILL 0.5 sleep 20; echo $?", "timeout"),
        script(
            "xargs",
            "system",
            "seq 40 | xargs -P 4 -n 5 sh -c 'exit 0'; echo $?; seq 3 | xargs -n1 sh -c 'exit 255'; echo $?",
            "xargs",
        ),
        script("signals", "system", "exec sh -c 'kill -TERM $$'", "sh"),
        script("aborts", "system", "ulimit -c 0; exec python3 -c 'import os; os.abort()'", "python3"),
        script("files missing", "system", "exec /no/such/program"),
    ]


def _cases():
    here = "{built}/"
    anonymous = "grep -q avx512f /proc/cpuinfo"
    plain = [
        Program("aligned", (here + "aligned",), "case"),
        Program("nothp", (here + "nothp",), "case"),
        Program("nothp, off", (here + "nothp", "off"), "case"),
        Program(
            "hugetlb",
            (here + "hugetlb",),
            "case",
            host=("sh", "-c", "test $(cat /proc/sys/vm/nr_hugepages) -ge 40"),
            what_host_lacks="sysctl vm.nr_hugepages=40",
        ),
        Program("locked", (here + "locked",), "case"),
        Program("segments", (here + "segments", "14000"), "case"),
        Program("spin", (here + "spin",), "case"),
        Program("stacktouch", (here + "stacktouch",), "case"),
        Program("threads", (here + "threads", "600"), "case"),
        Program("uring_wait", (here + "uring_wait",), "case", ("{built}/uring_wait",)),
        Program(
            "wide, AVX-512",
            (here + "wide",),
            "AVX-512",
            host=("sh", "-c", anonymous),
            what_host_lacks="a processor with AVX-512",
        ),
        Program(
            "wide, in a library",
            (here + "wide_host",),
            "AVX-512",
            host=("sh", "-c", anonymous),
            what_host_lacks="a processor with AVX-512",
        ),
    ]
    again = [Program(f"reexec {how}", (here + "reexec", how), "case") for how in ("memfd", "self", "noenv", "noargs")]
    storms = [
        Program(
            f"storm {mode}",
            (here + "storm", mode, "."),
            "case",
            rules=(),
            loose=(("pid", "the kernel numbers processes"),),
        )
        for mode in ("memory", "forks", "threads", "exec")
    ]
    return plain + again + storms


_C = {
    "aligned": ("-O2",),
    "nothp": ("-O2",),
    "hugetlb": ("-O2",),
    "locked": ("-O2",),
    "segments": ("-O2",),
    "spin": ("-O2", "-pthread"),
    "stacktouch": ("-O1", "-pthread"),
    "threads": ("-O2", "-pthread"),
    "reexec": ("-O2", "-g"),
    "storm": ("-O2", "-pthread"),
}


def source(name):
    """The C source of a program: the bench's own, or else the one of the tests."""
    return next(path for folder in (SOURCES, *OF_TESTS) if (path := folder / f"{name}.c").exists())


def build(folder):
    """Builds the programs of the bench; returns those that could not be built: name to reason."""
    lacking = {}

    def make(name, command):
        done = (
            subprocess.run(command, capture_output=True, text=True, cwd=SOURCES, check=False)
            if shutil.which(command[0])
            else None
        )
        if done is None or done.returncode != 0:
            lacking[name] = f"{command[0]} is not here" if done is None else done.stderr.strip()[-300:]

    running.run(["gcc", "-O2", "-shared", "-fPIC", "-o", str(folder / "leaving.so"), str(SOURCES / "leaving.c")])
    for name, how in _C.items():
        make(name, ["gcc", *how, "-o", str(folder / name), str(source(name))])
    make(
        "uring_wait",
        ["gcc", "-O2", "-pthread", "-o", str(folder / "uring_wait"), str(SOURCES / "uring_wait.c"), "-luring"],
    )
    wide = ["gcc", "-O3", "-mprefer-vector-width=512", "-o"]
    make("wide", [*wide, str(folder / "wide"), "-march=x86-64-v4", str(source("wide"))])
    make("wide_host", [*wide, str(folder / "wide_host"), "-march=native", str(source("wide"))])
    make("maps.o", ["gcc", "-O1", "-c", "-o", str(folder / "maps.o"), str(ROOT / "workloads/maps.c")])
    make(
        "goroutines",
        ["go", "build", "-ldflags=-s -w", "-o", str(folder / "goroutines"), str(SOURCES / "goroutines.go")],
    )
    make("arena", ["rustc", "-O", "-C", "strip=symbols", "-o", str(folder / "arena"), str(SOURCES / "arena.rs")])
    make("Small", ["javac", "-d", str(folder), str(SOURCES / "Small.java")])
    return lacking


def write_data(folder):
    """Creates the input texts of programs, identical each time."""
    state, lines = 88172645463325252, []
    for _ in range(6000):
        state ^= state << 13 & (1 << 64) - 1
        state ^= state >> 7
        state ^= state << 17 & (1 << 64) - 1
        lines.append(f"{state:016x} ab{state % 1000} {'abcde'[state % 5] * (state % 31)}")
    texts = {
        "text": "\n".join(lines) + "\n",
        "lines": "\n".join(lines[:200]) + "\n",
        "numbers.json": "[" + ",".join(f'{{"a":{n}}}' for n in range(3000)) + "]",
        "page.html": "<html><body><script>document.body.append(6*7)</script></body></html>",
        "program.tcl": "set s 0\nfor {set i 0} {$i < 30000} {incr i} {incr s $i}\nputs $s\nputs [exec echo child]\nexit 5\n",
        "program.ml": "let rec f n = if n < 2 then n else f (n-1) + f (n-2);;\nprint_int (f 17);;\nprint_newline ();;\nexit 4;;\n",
        "program.cc": "#include <string>\nstruct A { std::string s; };\nint f(int n) { return A{std::to_string(n)}.s.size(); }\n",
        "program.rs": "pub fn double(n: u32) -> u32 { n * 2 }\npub struct Pair(pub u32, pub u32);\n",
        "program.go": "package main\n\nfunc main() {\nprintln( 6*7 )\n}\n",
        "program.asm": "section .text\nglobal _start\n_start: mov eax, 60\nsyscall\n",
        "program.cmake": 'foreach(n RANGE 300)\nmath(EXPR s "${n}*2")\nendforeach()\nfile(WRITE out.txt "${s}")\nmessage(STATUS "${s}")\nmessage(FATAL_ERROR "so")\n',
        "program.m4": "define(`f', `$1$1')dnl\nf(x) f(f(z)) eval(6*7)\n",
        "program.y": "%token N\n%%\ns: N | s '+' N;\n%%\n",
        "program.l": "%%\n[0-9]+ ECHO;\n.|\\n ;\n%%\n",
        "program.bc": "scale=60\n4*a(1)\n2^300\nquit\n",
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o644)


def resolve(command, places):
    """The command with {built}, {data} and other places filled in; other braces stay."""
    for name, place in places.items():
        command = tuple(part.replace("{" + name + "}", str(place)) for part in command)
    return command


def places_of(built, data):
    """The values of names in braces. For launchers that choose a version, the chosen program is used."""
    found = {"built": built, "data": data}
    servers = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    found["postgres"] = servers[-1] if servers else "postgres"
    for name in ("rustc", "cargo"):
        root = (
            subprocess.run(["rustc", "--print", "sysroot"], capture_output=True, text=True, check=False)
            if shutil.which("rustc")
            else None
        )
        inside = pathlib.Path(root.stdout.strip()) / "bin" / name if root else pathlib.Path(name)
        found[name] = inside if inside.exists() else name
    return found


def why_not_here(program, places):
    """What the program needs and this host lacks; None if nothing."""
    needs = [resolve((need,), places)[0] for need in program.needs] + [resolve(program.command, places)[0]]
    missing = [need for need in needs if not shutil.which(need)]
    if missing:
        return f"{', '.join(dict.fromkeys(missing))} not here"
    if program.host and subprocess.run(program.host, capture_output=True, check=False).returncode != 0:
        return f"the host has not {program.what_host_lacks}"
    return None
