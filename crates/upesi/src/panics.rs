//! How a panic ends the process.

use crate::exit::Exit;

/// Has a panic of the embedded store while it opens its files end the process as the damage that it is. Here, because the
/// command is built to abort at a panic, and the embedded store would not survive unwinding either. Any other panic is a
/// mistake of the program, and is left to end it.
pub fn tell_damage() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        usual(panic);
        if let Some(opening) = upesi_lsm::opening() {
            let (path, remedy) = (opening.path.display(), opening.remedy);
            eprintln!("upesi: {path} is damaged: the embedded store makes no sense of its files; {remedy}");
            std::process::exit(Exit::Data.code().into());
        }
    }));
}
