//! Times of real programs. In a test binary of its own: the kernel gives a child the peak of its parent.

use pagewalk_live::timing::run;
use pagewalk_live::tracing::{ProcessEnd, Relay};
use std::process::Command;
use std::time::Duration;

#[test]
fn time_is_counted_where_it_is_spent() {
    let shell = |script: &str| run(Command::new("sh").args(["-c", script]), &Relay::new()).unwrap();
    let asleep = shell("sleep 0.2; exit 7");
    assert_eq!(asleep.end, ProcessEnd::Exit(7));
    assert!(asleep.wall >= Duration::from_millis(200) && asleep.processor() < Duration::from_millis(150));
    let busy = shell("i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; kill -9 $$");
    assert_eq!(busy.end, ProcessEnd::Signal(9));
    assert!(busy.user >= Duration::from_millis(20) && busy.wall >= busy.user, "{busy:?}");
    assert!(busy.resident_bytes.is_none_or(|bytes| bytes < 1 << 30), "{busy:?}");
    let large = shell("x=$(head -c 200000000 /dev/zero | tr '\\0' x); echo ${#x} > /dev/null");
    assert!(large.resident_bytes.is_some_and(|bytes| bytes > 200_000_000), "{large:?}");
}
