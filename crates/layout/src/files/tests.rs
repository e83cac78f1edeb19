use super::*;
use pagewalk_plan::DEFAULT_ARENA;
use std::process::Command;

/// A folder with shared objects.
struct Lab(tempfile::TempDir);

impl Lab {
    fn new() -> Lab {
        Lab(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    fn compile(&self, name: &str, flags: &[&str]) -> String {
        fs::write(self.path("x.c"), "int large[5000];\nint main(void) { return large[3]; }\n").unwrap();
        let mut command = Command::new("gcc");
        command.arg("-fPIC").args(flags).arg("-o").arg(self.path(name)).arg(self.path("x.c"));
        assert!(command.status().expect("gcc is here").success());
        self.path(name)
    }
}

fn layout(places: Vec<Place>) -> Layout {
    Layout { planner: String::new(), machines: vec![], arena: DEFAULT_ARENA, places }
}

#[test]
fn an_object_has_the_pages_from_its_first_to_its_last_byte() {
    let lab = Lab::new();
    let file = lab.compile("a.so", &["-shared", "-Wl,--build-id=0xBEEF"]);
    let planned = place(&file, 0x5000).unwrap();
    assert_eq!((planned.build_id.as_deref(), planned.offset), (Some("beef"), 0x5000));
    // Code, data and 20,000 bytes of zeros.
    assert!(planned.size >= 6 * 4096 && planned.size < 16 * 4096, "{:#x}", planned.size);
    std::os::unix::fs::symlink(&file, lab.path("link.so")).unwrap();
    let linked = Place { file: lab.path("link.so"), build_id: Some("BeEf".into()), ..planned.clone() };
    let found = objects(&layout(vec![linked])).unwrap().remove(0);
    let metadata = fs::metadata(&file).unwrap();
    assert_eq!(found.path.to_str(), Some(file.as_str()));
    assert_eq!((found.device, found.inode), (metadata.dev(), metadata.ino()));
    assert_eq!((found.base, found.bytes, found.alignment), (DEFAULT_ARENA + 0x5000, planned.size, 4096));
}

#[test]
fn what_does_not_fit_the_plan_is_named() {
    let lab = Lab::new();
    let file = lab.compile("a.so", &["-shared", "-Wl,--build-id=0xBEEF"]);
    let program = lab.compile("fixed", &["-no-pie"]);
    fs::write(lab.path("text"), "not an object").unwrap();
    let good = place(&file, 0).unwrap();
    let other = |change: fn(&mut Place)| {
        let mut place = good.clone();
        change(&mut place);
        objects(&layout(vec![place])).unwrap_err().to_string()
    };
    let build = other(|place| place.build_id = Some("0123".into()));
    assert!(build.contains("another build") && build.contains("0123") && build.contains("beef"), "{build}");
    let size = other(|place| place.size = 0x1000);
    assert!(size.contains("another build") && size.contains("0x1000"), "{size}");
    let missing = other(|place| place.file += ".gone");
    assert!(missing.contains("a.so.gone") && missing.contains("No such file"), "{missing}");
    for wrong in [lab.path("text"), lab.path("."), program] {
        let error = place(&wrong, 0).unwrap_err();
        assert!(matches!(&error, FileError::NotAnObject { file } if *file == wrong), "{error}");
    }
    fs::hard_link(&file, lab.path("b.so")).unwrap();
    let twice = layout(vec![good.clone(), Place { file: lab.path("b.so"), ..good.clone() }]);
    let twice = objects(&twice).unwrap_err().to_string();
    assert!(twice.contains("a.so") && twice.contains("b.so"), "{twice}");
}
