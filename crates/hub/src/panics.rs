//! How a panic ends the process.

use crate::exit::Exit;

/// Has a panic of any thread end the process, however the command was built. A panic of the embedded store while it
/// opens its files ends it as the damage that it is: the embedded store would not survive unwinding. Any other
/// panic is a mistake of the program, and aborts it.
pub fn end_the_process() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        usual(panic);
        if let Some(opening) = upesi_tables::lsm::opening() {
            let (path, remedy) = (opening.path.display(), opening.remedy);
            eprintln!("upesi: {path} is damaged: the embedded store makes no sense of its files; {remedy}");
            std::process::exit(Exit::Data.code().into());
        }
        std::process::abort();
    }));
}
