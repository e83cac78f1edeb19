//! Sessions with engines other than Valgrind: this test program, started again, speaks the protocol itself.

mod fake_engine;

use fake_engine::{Announcement, Engine, text};
use pagewalk_capture::wire::{block_header, event_header, kind, offset};
use pagewalk_capture::{CaptureError, HostDescription, RingSource, Session, read_ahead};
use pagewalk_trace::{Event, Item, Origin, Source, SourceError, StreamHeader};
use std::env;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

const ROLE: &str = "PAGEWALK_TEST_ROLE";
const SOCKET: &str = "PAGEWALK_TEST_SOCKET";
const BLOCK: u32 = 3;
/// Each block execution: two references, three instructions.
const EXECUTIONS: u64 = 20_000;

// ---- the engine's side ----

/// Starts this program again as an engine that its parent does not wait for, like a daemon.
#[allow(clippy::zombie_processes, reason = "outliving its parent is what it is for")]
fn spawn_engine(role: &str, socket: &Path) -> u64 {
    u64::from(engine_command(role, socket).spawn().unwrap().id())
}

/// This program again, as an engine in the role `role`.
fn engine_command(role: &str, socket: &Path) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["engine_process", "--exact", "--nocapture"]).env(ROLE, role).env(SOCKET, socket);
    command
}

/// Not a test: what [`engine_command`] runs.
#[test]
fn engine_process() {
    let Ok(role) = env::var(ROLE) else { return };
    let socket = PathBuf::from(env::var(SOCKET).unwrap());
    let status = play(&role, &socket);
    std::process::exit(status);
}

fn define_block(engine: &mut Engine) {
    let mut payload = vec![u64::from(BLOCK), 0, 3, 2, 1];
    payload.extend([0x1000, 4, 0x1004, 4, 0x1008, 8]);
    payload.extend([1 << 16 | 8 << 32, 1 | 2 << 16 | 4 << 32]);
    payload.extend([2 | 3 << 32, 0x0101, 0x0202]);
    engine.event(kind::BLOCK, &payload);
}

fn execute(engine: &mut Engine, times: u64) -> bool {
    (0..times).all(|time| engine.push(&[block_header(BLOCK, 2), 0x7000 + time * 8, 0x10_0000 + time]))
}

fn open(socket: &Path, origin: u64) -> Engine {
    let mut engine = Engine::connect(socket, &Announcement::new(origin));
    engine.identity(&["/bin/program", "first argument", ""]);
    define_block(&mut engine);
    engine
}

fn play(role: &str, socket: &Path) -> i32 {
    match role {
        "good" => {
            let mut engine = open(socket, 0);
            let path = text("/bin/true");
            engine.event(kind::MAP, &[&[0x40_0000, 8192, 5 | 4 << 8, 4096][..], &path].concat());
            execute(&mut engine, EXECUTIONS);
            engine.event(kind::MARKER, &[77]);
            execute(&mut engine, 1);
            engine.event(kind::EXIT, &[7]);
            engine.finish();
            7
        }
        "killed" => {
            let mut engine = open(socket, 0);
            execute(&mut engine, EXECUTIONS);
            engine.publish();
            // Not published, so it must not be visible.
            execute(&mut engine, 1);
            std::thread::sleep(Duration::from_millis(50));
            kill_self()
        }
        "abandoned" => {
            let mut engine = open(socket, 0);
            if execute(&mut engine, u64::MAX) { 1 } else { 33 }
        }
        "fork" => {
            // The child connects long after its parent's end.
            let child = spawn_engine("late child", socket);
            let mut engine = open(socket, 0);
            engine.event(kind::FORK, &[child]);
            engine.finish();
            0
        }
        "late child" => {
            std::thread::sleep(Duration::from_millis(300));
            let mut engine = open(socket, 1);
            execute(&mut engine, 5);
            engine.finish();
            0
        }
        "exec" => {
            let mut engine = open(socket, 0);
            execute(&mut engine, 2);
            engine.event(kind::EXEC, &text("/bin/other"));
            engine.publish();
            let error = engine_command("good", socket).exec();
            panic!("{error}");
        }
        "crowd" => {
            std::thread::scope(|scope| {
                for _ in 0..300 {
                    scope.spawn(|| {
                        let mut engine = open(socket, 1);
                        execute(&mut engine, 600);
                        engine.finish();
                    });
                }
            });
            0
        }
        "stubborn" => {
            let child = spawn_engine("stubborn child", socket);
            let mut engine = open(socket, 0);
            engine.event(kind::FORK, &[child]);
            engine.publish();
            std::thread::sleep(Duration::from_secs(1000));
            0
        }
        "stubborn child" => {
            let engine = open(socket, 1);
            engine.publish();
            std::thread::sleep(Duration::from_secs(1000));
            0
        }
        hostile => play_hostile(hostile, socket),
    }
}

fn play_hostile(role: &str, socket: &Path) -> i32 {
    let mut announcement = Announcement::new(0);
    match role {
        "wrong magic" => announcement.hello[0] += 1,
        "wrong ring magic" => announcement.magic += 1,
        "wrong version" => announcement.hello[1] = 99,
        "short hello" => announcement.hello.truncate(3),
        "no file" => announcement.send_file = false,
        "unsealable" => announcement.sealable = false,
        "small file" => announcement.file_bytes = Some(4095),
        "chunks beyond the file" => announcement.file_bytes = Some(4096 * 4),
        "odd chunks" => announcement.chunks = 3,
        "many chunks" => announcement.chunks = 512,
        _ => {}
    }
    let mut engine = Engine::connect(socket, &announcement);
    engine.identity(&["x"]);
    match role {
        "head too far" => engine.word(offset::HEAD).store(5, Ordering::SeqCst),
        "huge chunk" => {
            engine.half(offset::CHUNK_USED).store(4104, Ordering::SeqCst);
            engine.word(offset::HEAD).store(1, Ordering::SeqCst);
        }
        "huge partial" => engine.word(offset::PARTIAL).store(u64::MAX - 7, Ordering::SeqCst),
        "split word" => engine.word(offset::PARTIAL).store(9, Ordering::SeqCst),
        "nonsense" => {
            engine.push(&[event_header(kind::MARKER, 1), 5, 12345]);
            engine.publish();
        }
        "no identity" => {
            engine = Engine::connect(socket, &announcement);
            engine.event(kind::MARKER, &[5]);
            engine.publish();
        }
        _ => {}
    }
    engine.wake_readers(u64::MAX);
    // Until the session gives up on it.
    while !engine.reader_is_gone() {
        std::thread::sleep(Duration::from_millis(1));
    }
    0
}

// ---- the session's side ----

/// What a consumer saw of one stream.
#[derive(Debug)]
struct Seen {
    header: StreamHeader,
    events: Vec<(u64, Event)>,
    refs: u64,
    instructions: u64,
    /// Sum of the addresses.
    sum: u64,
    error: Option<SourceError>,
}

fn consume(mut source: impl Source) -> Seen {
    let header = source.header().clone();
    let mut seen = Seen { header, events: vec![], refs: 0, instructions: 0, sum: 0, error: None };
    loop {
        match source.next_item() {
            Ok(Some(Item::Batch(batch))) => {
                assert_eq!((batch.first.0, batch.first_instruction), (seen.refs, seen.instructions));
                seen.refs += batch.refs.len() as u64;
                seen.instructions += batch.instructions();
                seen.sum += batch.refs.iter().map(|r| r.address().0).sum::<u64>();
            }
            Ok(Some(Item::Event { at, event })) => seen.events.push((at.0, event)),
            Ok(None) => return seen,
            Err(error) => {
                assert!(matches!(source.next_item(), Ok(None)), "an error is the last item");
                seen.error = Some(error);
                return seen;
            }
        }
    }
}

fn session() -> Session {
    let host = HostDescription { cpu: "test cpu".into(), kernel: "test kernel".into(), thp: "never".into() };
    Session::new("test engine 1", host).unwrap()
}

/// Runs an engine in a role; returns what was seen of its streams, by number.
fn run(session: &Session, role: &str) -> (Result<ExitStatus, CaptureError>, Vec<Seen>) {
    run_and_consume(session, role, consume)
}

fn run_and_consume(
    session: &Session,
    role: &str,
    consume: impl Fn(RingSource) -> Seen + Sync,
) -> (Result<ExitStatus, CaptureError>, Vec<Seen>) {
    let seen = Mutex::new(vec![]);
    let result = session.run(engine_command(role, &session.socket_path()), |source| {
        let number = source.number();
        let one = consume(source);
        seen.lock().unwrap().push((number, one));
    });
    let mut seen = seen.into_inner().unwrap();
    seen.sort_by_key(|(number, _)| *number);
    (result, seen.into_iter().map(|(_, one)| one).collect())
}

/// Sum of the addresses of `n` executions.
fn address_sum(n: u64) -> u64 {
    (0..n).map(|time| 0x7000 + time * 8 + 0x10_0000 + time).sum()
}

#[test]
fn a_good_engine_is_told_in_full() {
    let session = session();
    let (status, seen) = run(&session, "good");
    assert_eq!(status.unwrap().code(), Some(7));
    assert!(session.refused().is_empty());
    let [seen] = &seen[..] else { panic!("{} streams", seen.len()) };
    let header = &seen.header;
    assert_eq!((header.origin, header.parent), (Origin::Start, std::process::id()));
    assert_eq!(header.program, "/bin/program");
    assert_eq!(header.arguments, ["/bin/program", "first argument", ""]);
    let host = [&header.engine, &header.cpu, &header.kernel, &header.thp];
    assert_eq!(host, ["test engine 1", "test cpu", "test kernel", "never"]);
    assert_eq!((seen.refs, seen.instructions), ((EXECUTIONS + 1) * 2, (EXECUTIONS + 1) * 3));
    assert_eq!(seen.sum, address_sum(EXECUTIONS) + address_sum(1));
    let [(0, Event::Map(map)), marker, exit] = &seen.events[..] else { panic!("{:?}", seen.events) };
    let file = map.file.as_ref().unwrap();
    assert_eq!(
        (map.start.0, map.bytes, file.path.as_str(), file.offset),
        (0x40_0000, 8192, "/bin/true", 4096)
    );
    assert_eq!((map.protection.read, map.protection.write, map.protection.execute), (true, false, true));
    assert!(file.build_id.as_ref().is_some_and(|id| id.len() == 40), "{:?}", file.build_id);
    assert_eq!(*marker, (EXECUTIONS * 2, Event::Marker { id: 77 }));
    assert_eq!(*exit, (EXECUTIONS * 2 + 2, Event::Exit { status: 7 }));
    assert!(seen.error.is_none());
}

#[test]
fn what_is_read_ahead_is_what_is_there() {
    let told = |seen: &[Seen]| -> Vec<String> {
        let one = |seen: &Seen| {
            let Seen { events, refs, instructions, sum, error, .. } = seen;
            // Process ids differ from run to run.
            let error = error.as_ref().map(|error| matches!(error, SourceError::Truncated(_)));
            format!("{events:?} {refs} {instructions} {sum} {error:?}")
        };
        seen.iter().map(one).collect()
    };
    for role in ["good", "killed", "exec"] {
        let straight = told(&run(&session(), role).1);
        let ahead =
            |source| std::thread::scope(|scope| consume(read_ahead(scope, source, Vec::new()).unwrap()));
        let ahead = run_and_consume(&session(), role, ahead).1;
        assert_eq!(told(&ahead), straight, "{role}");
    }
}

#[test]
fn an_engine_notices_that_who_read_ahead_is_gone() {
    let leave = |source: RingSource| {
        let header = source.header().clone();
        std::thread::scope(|scope| {
            let mut ahead = read_ahead(scope, source, Vec::new()).unwrap();
            (0..3).for_each(|_| assert!(matches!(ahead.next_item(), Ok(Some(_)))));
        });
        Seen { header, events: vec![], refs: 0, instructions: 0, sum: 0, error: None }
    };
    let (status, _) = run_and_consume(&session(), "abandoned", leave);
    assert_eq!(status.unwrap().code(), Some(33));
}

#[test]
fn what_a_killed_engine_published_is_told() {
    let session = session();
    let (status, seen) = run(&session, "killed");
    assert_eq!(status.unwrap().signal(), Some(9));
    let [seen] = &seen[..] else { panic!("{} streams", seen.len()) };
    assert_eq!((seen.refs, seen.sum), (EXECUTIONS * 2, address_sum(EXECUTIONS)));
    assert!(matches!(seen.error, Some(SourceError::Truncated(_))), "{:?}", seen.error);
}

#[test]
fn an_engine_notices_that_its_reader_is_gone() {
    let session = session();
    let status = session.run(engine_command("abandoned", &session.socket_path()), |mut source| {
        assert!(matches!(source.next_item(), Ok(Some(Item::Batch(_)))));
    });
    assert_eq!(status.unwrap().code(), Some(33));
}

#[test]
fn a_child_that_connects_after_its_parent_has_ended_is_waited_for() {
    let session = session();
    let (status, seen) = run(&session, "fork");
    assert!(status.unwrap().success());
    let [parent, child] = &seen[..] else { panic!("{} streams", seen.len()) };
    assert_eq!(parent.events, [(0, Event::Fork { child: child.header.pid })]);
    assert_eq!((child.header.origin, child.refs), (Origin::Fork, 10));
    assert!(session.refused().is_empty());
}

#[test]
fn an_exec_ends_one_stream_in_order_and_starts_another() {
    let (status, seen) = run(&session(), "exec");
    assert_eq!(status.unwrap().code(), Some(7));
    let [before, after] = &seen[..] else { panic!("{} streams", seen.len()) };
    assert_eq!(before.events, [(4, Event::Exec { path: "/bin/other".into() })]);
    assert!(before.error.is_none(), "{:?}", before.error);
    assert_eq!((before.header.origin, after.header.origin), (Origin::Start, Origin::Exec));
    assert_eq!(before.header.pid, after.header.pid);
    assert_eq!(after.refs, (EXECUTIONS + 1) * 2);
}

#[test]
fn hundreds_at_once_are_all_followed() {
    let (status, seen) = run(&session(), "crowd");
    assert!(status.unwrap().success());
    assert_eq!(seen.len(), 300);
    assert!(seen.iter().all(|one| one.refs == 1200 && one.error.is_none()));
}

#[test]
fn a_second_interrupt_kills_the_whole_tree() {
    let session = session();
    let handle = session.handle();
    let streams = Mutex::new(0);
    let start = Instant::now();
    let status = session.run(engine_command("stubborn", &session.socket_path()), |source| {
        *streams.lock().unwrap() += 1;
        if *streams.lock().unwrap() == 2 {
            handle.interrupt();
            std::thread::sleep(Duration::from_millis(100));
            handle.interrupt();
        }
        let seen = consume(source);
        assert!(matches!(seen.error, Some(SourceError::Truncated(_))));
    });
    assert_eq!(status.unwrap().signal(), Some(9));
    assert_eq!(*streams.lock().unwrap(), 2);
    assert!(start.elapsed() < Duration::from_secs(60));
}

#[test]
fn engines_that_break_the_protocol_are_refused_by_name() {
    for (role, what) in [
        ("wrong magic", "does not speak the engine's protocol"),
        ("short hello", "does not speak the engine's protocol"),
        ("wrong version", "speaks version 99 of the engine's protocol, not 4"),
        ("wrong ring magic", "its ring does not begin with the magic number"),
        ("no file", "sent no ring"),
        ("unsealable", "its ring cannot be sealed against shrinking"),
        ("small file", "its ring has only 4095 bytes"),
        ("chunks beyond the file", "its ring of 16384 bytes claims 4 chunks of 4096 bytes"),
        ("odd chunks", "its ring of 16384 bytes claims 3 chunks of 4096 bytes"),
        ("many chunks", "its ring of 2101248 bytes claims 512 chunks of 4096 bytes"),
    ] {
        let (result, seen) = run(&session(), role);
        assert!(seen.is_empty(), "{role}");
        match result {
            Err(CaptureError::Refused { what: found, .. }) => assert_eq!(found, what, "{role}"),
            other => panic!("{role}: {other:?}"),
        }
    }
}

#[test]
fn engines_that_break_the_stream_end_it_with_an_error() {
    for (role, message) in [
        ("head too far", "the engine's ring is malformed: 5 chunks are complete when 0 have been read"),
        ("huge chunk", "the engine's ring is malformed: chunk 0 claims 4104 valid bytes"),
        ("huge partial", "the engine's ring is malformed: chunk 0 claims 18446744073709551608 valid bytes"),
        ("split word", "the engine's ring is malformed: chunk 0 claims 9 valid bytes"),
        (
            "nonsense",
            "the engine's stream is malformed at word 6 of chunk 0: expected the header of a block or an event, found \
             0x0000000000003039",
        ),
        ("no identity", "the engine's stream does not begin with the command line"),
    ] {
        let (status, seen) = run(&session(), role);
        assert!(status.unwrap().success(), "{role}");
        let error = seen.last().unwrap().error.as_ref().unwrap_or_else(|| panic!("{role}: no error"));
        assert_eq!(error.to_string(), message, "{role}");
        let markers = usize::from(role == "nonsense");
        assert_eq!(seen.last().unwrap().events.len(), markers, "{role}: what came before is told");
    }
}

#[test]
fn an_engine_that_says_nothing_is_an_error() {
    let session = session();
    let result = session.run(Command::new("false"), |_| unreachable!());
    assert!(matches!(result, Err(CaptureError::EngineSilent { status }) if status.code() == Some(1)));
    let result = session.run(Command::new("/no/such/engine"), |_| unreachable!());
    assert!(matches!(result, Err(CaptureError::Spawn { .. })));
}

fn kill_self() -> ! {
    let pid = rustix::process::getpid();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    unreachable!("killed")
}
