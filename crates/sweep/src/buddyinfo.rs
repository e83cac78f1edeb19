//! Files that tables of memory name: the text of a host's `/proc/buddyinfo`.

use std::path::Path;
use toml::{Table, Value};

/// Puts the text of the file that `memory.initial.buddyinfo` of a table names in its place, so that what is simulated,
/// and what is known as done, is what the file says, not where it lies. Its path starts from `folder`.
pub fn read(table: &mut Table, folder: &Path) -> Result<(), String> {
    let initial = table.get_mut("memory").and_then(|memory| memory.get_mut("initial"));
    let Some(Value::String(text)) = initial.and_then(|initial| initial.get_mut("buddyinfo")) else {
        return Ok(());
    };
    // What begins so is the text itself.
    if !text.trim_start().starts_with("Node") {
        let read = std::fs::read_to_string(folder.join(&*text));
        *text = read.map_err(|error| format!("memory: buddyinfo = \"{text}\": {error}"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_takes_the_places_name() {
        let place = tempfile::tempdir().unwrap();
        let host = "Node 0, zone Normal 1 2 3\n";
        std::fs::write(place.path().join("host.txt"), host).unwrap();
        let table = |name: &str| -> Table {
            format!("policy = \"linux\"\nmemory = {{ size = \"1G\", initial = {{ buddyinfo = {name:?} }} }}")
                .parse()
                .unwrap()
        };
        let mut named = table("host.txt");
        read(&mut named, place.path()).unwrap();
        assert_eq!(named, table(host));
        read(&mut named, Path::new("/nowhere")).unwrap();
        assert_eq!(named, table(host), "the text itself is left as it is");
        let why = read(&mut table("none.txt"), place.path()).unwrap_err();
        assert!(why.contains("buddyinfo = \"none.txt\": No such file"), "{why}");
        let mut other: Table = "policy = \"linux\"".parse().unwrap();
        read(&mut other, place.path()).unwrap();
        assert_eq!(other.len(), 1);
    }
}
