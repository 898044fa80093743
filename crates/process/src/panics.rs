//! The end of the process after a panic.

use crate::exit::Exit;
use crate::terminal::note;

/// Makes a panic in any thread end the process, in every build profile. A panic of the embedded store while it opens
/// its files is reported as damage, because the store would not survive unwinding. Any other panic is a fault of the
/// program, and aborts it.
pub fn end_the_process() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        usual(panic);
        if let Some(opening) = upesi_tables::lsm::opening() {
            let (path, remedy) = (opening.path.display(), opening.remedy);
            note(format_args!("{path} is damaged: the embedded store cannot read its files; {remedy}"));
            std::process::exit(Exit::Data.code().into());
        }
        std::process::abort();
    }));
}
