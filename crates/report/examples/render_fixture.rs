//! Writes the page of a fixture result, to look at it in a browser:
//! `cargo run -p pagewalk-report --example render_fixture -- cpython > page.html`

#[path = "../tests/fixtures/mod.rs"]
mod fixtures;

fn main() -> std::process::ExitCode {
    let result = match std::env::args().nth(1).as_deref() {
        Some("cpython") => fixtures::cpython(),
        Some("random-access") => fixtures::random_access(),
        Some("no-walks") => fixtures::no_walks(),
        Some("many-processes") => fixtures::many_processes(),
        Some("hostile") => fixtures::hostile(),
        Some("kernels") => fixtures::kernels(),
        Some("sides") => fixtures::sides(),
        Some("software") => fixtures::software(),
        _ => {
            eprintln!(
                "which fixture: cpython, random-access, no-walks, many-processes, hostile, kernels, sides or \
                 software"
            );
            return std::process::ExitCode::from(2);
        }
    };
    print!("{}", pagewalk_report::render_html(&result));
    std::process::ExitCode::SUCCESS
}
