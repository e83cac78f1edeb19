//! Machines with some keys changed.
//!
//! A key is a path into the machine file, such as `tlb.l2.entries`, `walker.levels` or `cost.l2_hit`; arrays of tables
//! (`[[tlb]]`) are entered by an entry's name.

use crate::study::MachineVariant;
use pagewalk_report::sweep::schema::{Parameters, Value};
use std::collections::BTreeMap;
use toml::{Table, Value as Toml};

/// Most combinations of all keys: far more than anybody waits for, so that a typo cannot exhaust memory.
const CHOICES_MAX: usize = 1 << 16;

/// Every combination of one value per key, the last key changing fastest.
pub fn choices(vary: &Table) -> Result<Vec<Vec<(String, Toml)>>, String> {
    let mut all = vec![Vec::new()];
    for (key, values) in vary {
        if key == MachineVariant::CORES {
            return Err(
                "vary: \"cores\" is a key of the study, not of machines: give it above [vary]".to_owned()
            );
        }
        let values = values.as_array().filter(|values| !values.is_empty());
        let values =
            values.ok_or_else(|| format!("vary: \"{key}\": give a list of values, such as [512, 1024]"))?;
        if all.len().saturating_mul(values.len()) > CHOICES_MAX {
            return Err(format!(
                "vary: more than {CHOICES_MAX} choices with the values of \"{key}\": give fewer"
            ));
        }
        each_once(values).map_err(|why| format!("vary: \"{key}\": {why}: give each value once"))?;
        let choose = |chosen: &Vec<(String, Toml)>, value: &Toml| {
            let mut chosen = chosen.clone();
            chosen.push((key.clone(), value.clone()));
            chosen
        };
        all = all.iter().flat_map(|chosen| values.iter().map(move |value| choose(chosen, value))).collect();
    }
    Ok(all)
}

/// Reports a value that is in the list twice.
fn each_once(values: &[Toml]) -> Result<(), String> {
    let mut seen = BTreeMap::new();
    for value in values {
        match seen.insert(one_text(value), value) {
            None => {}
            Some(first) if first == value => return Err(format!("{value} is there twice")),
            Some(first) => return Err(format!("{first} and {value} are one value")),
        }
    }
    Ok(())
}

/// The value as text, equal for a number with and without a point.
fn one_text(value: &Toml) -> String {
    match value {
        // Below this, every whole number has an exact float.
        Toml::Float(number)
            if number.fract() == 0.0 && number.abs() < (1_u64 << f64::MANTISSA_DIGITS) as f64 =>
        {
            (*number as i64).to_string()
        }
        other => other.to_string(),
    }
}

/// The text of a machine file with these keys set.
///
/// # Errors
/// If the text is no TOML, or a key leads nowhere.
pub fn varied(text: &str, changes: &Table) -> Result<String, String> {
    let machine: Table = text.parse().map_err(|error| format!("{error}"))?;
    let (mut machine, lists) = by_name(&machine);
    for (key, value) in changes {
        set(&mut machine, key, value.clone())?;
    }
    let machine = as_lists(machine, &lists)?;
    toml::to_string(&machine).map_err(|error| error.to_string())
}

/// Sets the key to `value`.
pub fn set(machine: &mut Table, key: &str, value: Toml) -> Result<(), String> {
    let mut path: Vec<&str> = key.split('.').collect();
    let last = path.pop().unwrap_or_default();
    let mut table = machine;
    let mut walked = String::new();
    for name in path {
        let inside = if walked.is_empty() { "the machine".to_owned() } else { format!("`{walked}`") };
        let choices = names(table);
        table = table.get_mut(name).and_then(Toml::as_table_mut).ok_or_else(|| {
            format!("vary: \"{key}\": {inside} has no `{name}` to go into; it has {choices}")
        })?;
        if !walked.is_empty() {
            walked.push('.');
        }
        walked.push_str(name);
    }
    if let Some(Toml::Table(inner)) = table.get(last) {
        let keys: Vec<&str> = inner.keys().map(String::as_str).collect();
        return Err(format!("vary: \"{key}\" is a table: go on to one of {}", keys.join(", ")));
    }
    table.insert(last.to_owned(), value);
    Ok(())
}

/// The keys of a table.
fn names(table: &Table) -> String {
    let names: Vec<&str> =
        table.iter().filter(|(_, value)| value.is_table()).map(|(name, _)| name.as_str()).collect();
    if names.is_empty() { "nothing to go into".to_owned() } else { names.join(", ") }
}

/// The machine with its lists of named tables turned into tables by name, so that a path leads through them; and the
/// order of each list.
pub fn by_name(machine: &Table) -> (Table, Vec<(String, Vec<String>)>) {
    let mut machine = machine.clone();
    let mut lists = Vec::new();
    for (key, value) in &mut machine {
        let Some(list) = value.as_array() else { continue };
        let name_of = |entry: &Toml| Some(entry.as_table()?.get("name")?.as_str()?.to_owned());
        let Some(names) = list.iter().map(name_of).collect::<Option<Vec<_>>>() else { continue };
        if names.is_empty() {
            continue;
        }
        let entries = names.iter().cloned().zip(list.iter().cloned()).collect();
        *value = Toml::Table(entries);
        lists.push((key.clone(), names));
    }
    (machine, lists)
}

/// Undoes [`by_name`]. Other entries next to the named tables are an error: a path ended in the list itself.
pub fn as_lists(mut machine: Table, lists: &[(String, Vec<String>)]) -> Result<Table, String> {
    for (key, names) in lists {
        let Some(Toml::Table(entries)) = machine.get_mut(key) else { continue };
        let list = names.iter().filter_map(|name| entries.remove(name)).collect();
        if let Some(other) = entries.keys().next() {
            let names = names.join(", ");
            return Err(format!("vary: \"{key}.{other}\": `{key}` has no `{other}`; it has {names}"));
        }
        machine.insert(key.clone(), Toml::Array(list));
    }
    Ok(machine)
}

/// The values for display and results.
pub fn parameters(chosen: &[(String, Toml)]) -> Parameters {
    let value = |value: &Toml| match value {
        Toml::Integer(number) => Value::Integer(*number),
        Toml::String(text) => Value::Text(text.clone()),
        other => Value::Text(other.to_string()),
    };
    chosen.iter().map(|(key, chosen)| (key.clone(), value(chosen))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(text: &str) -> Table {
        text.parse().unwrap()
    }

    const MACHINE: &str = "name = \"m\"\n[[tlb]]\nname = \"l1\"\nentries = 16\n[[tlb]]\nname = \"l2\"\nentries = 512\n\
                           [walker]\nlevels = 4\n[walker.caches.pde]\nentries = 8\n";

    fn varied(key: &str, value: i64) -> Result<Table, String> {
        let changes = Table::from_iter([(key.to_owned(), Toml::Integer(value))]);
        super::varied(MACHINE, &changes).map(|text| table(&text))
    }

    #[test]
    fn every_choice_comes_once() {
        let all = choices(&table("\"a.b\" = [1, 2]\n\"c\" = [\"x\", \"y\", \"z\"]\n")).unwrap();
        let words: Vec<String> =
            all.iter().map(|chosen| format!("{} {}", chosen[0].1, chosen[1].1.as_str().unwrap())).collect();
        assert_eq!(words, ["1 x", "1 y", "1 z", "2 x", "2 y", "2 z"]);
        assert_eq!(choices(&Table::new()).unwrap().len(), 1);
        let hundred: Vec<u32> = (0..100).collect();
        let many = format!("a = {hundred:?}\nb = {hundred:?}\nc = {hundred:?}\n");
        assert!(choices(&table(&many)).unwrap_err().contains("more than 65536"));
        for bad in ["a = 1", "a = []", "a = [1, 2, 1]"] {
            assert!(choices(&table(bad)).unwrap_err().contains("\"a\""), "{bad}");
        }
    }

    #[test]
    fn one_number_written_in_two_ways_is_one_value() {
        for (list, what) in [
            ("[1, 2, 1]", "1 is there twice"),
            ("[0.5, 1.5, 0.50]", "0.5 is there twice"),
            ("[1, 1.0]", "1 and 1.0 are one value"),
            ("[2.0, 0x2]", "2.0 and 2 are one value"),
            ("[0, -0.0]", "0 and -0.0 are one value"),
        ] {
            let why = choices(&table(&format!("\"cost.l2_hit\" = {list}"))).unwrap_err();
            assert!(why.contains("\"cost.l2_hit\"") && why.contains(what), "{list}: {why}");
        }
        let all_differ = table("a = [1, 1.5, \"1\", \"1.0\", 9007199254740993, 9007199254740992.0]");
        assert_eq!(choices(&all_differ).unwrap().len(), 6);
    }

    #[test]
    fn paths_lead_through_named_lists() {
        let machine = varied("tlb.l2.entries", 1024).unwrap();
        assert_eq!(machine, table(&MACHINE.replace("512", "1024")));
        assert_eq!(varied("walker.caches.pde.entries", 9).unwrap(), table(&MACHINE.replace("= 8", "= 9")));
        let added = varied("tlb.l1.ways", 2).unwrap();
        assert_eq!(added["tlb"][0]["ways"].as_integer(), Some(2));
    }

    #[test]
    fn a_path_that_leads_nowhere_is_named_with_the_choices() {
        let why = varied("tlb.l3.entries", 1).unwrap_err();
        assert!(why.contains("`tlb` has no `l3`") && why.contains("l1, l2"), "{why}");
        for key in ["tlb.l3", "tlb.l2_entries"] {
            let why = varied(key, 1).unwrap_err();
            let last = key.strip_prefix("tlb.").unwrap();
            assert!(why.contains(&format!("\"{key}\": `tlb` has no `{last}`; it has l1, l2")), "{why}");
        }
        let why = varied("cost.l2_hit", 1).unwrap_err();
        assert!(varied("tlb.l1", 1).unwrap_err().contains("go on to one of entries, name"));
        assert!(why.contains("the machine has no `cost`") && why.contains("tlb, walker"), "{why}");
    }
}
