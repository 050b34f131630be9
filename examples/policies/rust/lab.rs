//! A policy that lets people try things in the laboratory: on nodes whose name
//! begins as the setting `policy.lab` says, what was changed by hand stays as it
//! is for a day, by the file's or object's age. Everywhere else it is put back.
//!
//!     rustc --edition 2021 --target wasm32-unknown-unknown --crate-type cdylib \
//!           -C opt-level=s -C panic=abort -C strip=symbols -o lab.wasm lab.rs

mod host {
    #[link(wasm_import_module = "meshgen")]
    extern "C" {
        fn fact(key: *const u8, key_len: usize, buf: *mut u8, cap: usize) -> i32;
        fn reason(text: *const u8, len: usize);
    }

    /// Returns a fact, if it is known.
    pub fn ask(key: &str) -> Option<String> {
        let mut buf = vec![0u8; 256];
        loop {
            let n = unsafe { fact(key.as_ptr(), key.len(), buf.as_mut_ptr(), buf.len()) };
            let n = usize::try_from(n).ok()?;
            if n <= buf.len() {
                buf.truncate(n);
                return String::from_utf8(buf).ok();
            }
            buf.resize(n, 0);
        }
    }

    /// Adds to the reason.
    pub fn because(text: &str) {
        unsafe { reason(text.as_ptr(), text.len()) }
    }
}

#[derive(Clone, Copy)]
#[allow(dead_code)] // the decisions of ABI 1, all of them
enum Decision {
    Refuse,
    Hold,
    Adopt,
    Follow,
    Migrate,
    Transfer,
    Remove,
    Keep,
    Restore,
}

use Decision::*;

const DAY: u64 = 24 * 60 * 60;

type Facts = fn(&str) -> Option<String>;

fn drift(ask: Facts) -> (Decision, &'static str) {
    let prefix = ask("policy.lab").unwrap_or_default();
    let node = ask("node.name").unwrap_or_default();
    let age = ask("observed.age").and_then(|age| age.parse::<u64>().ok());
    match ask("change").as_deref() {
        Some("directory") => return (Refuse, "a directory is in its place"),
        Some("masked" | "overridden") => return (Keep, "it is its owner's word"),
        _ => {}
    }
    if prefix.is_empty() || !node.starts_with(&prefix) {
        return (Restore, "this is not the laboratory");
    }
    match age {
        Some(age) if age < DAY => (Keep, "in the laboratory, and not a day old"),
        Some(_) => (Restore, "in the laboratory, and older than a day"),
        None => (Refuse, "in the laboratory, and of unknown age"),
    }
}

fn decide_by(ask: Facts) -> (Decision, &'static str) {
    let is = |key, value| ask(key).as_deref() == Some(value);
    let data = is("data", "true");
    match ask("transition").as_deref() {
        Some("drift") => drift(ask),
        Some("rename") if data => (Refuse, "it holds data"),
        Some("rename") => (Follow, "it holds no data"),
        Some("transfer") if ask("candidates").unwrap_or_default().contains(' ') => (Refuse, "it may have been another"),
        Some("transfer") => (Transfer, "the name stays"),
        Some("remove") if data => (Keep, "it holds data"),
        Some("remove") => (Remove, "it is no longer declared"),
        _ => (Refuse, "this policy takes nothing over"),
    }
}

#[no_mangle]
pub extern "C" fn decide() -> i32 {
    let (decision, why) = decide_by(host::ask);
    host::because(why);
    decision as i32
}
