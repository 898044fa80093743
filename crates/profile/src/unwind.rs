//! Finds the addresses of the calls in a copied stack, by the unwind tables of the program (`.eh_frame`).

use std::fs::File;
use std::ops::Range;

use framehop::{
    CacheNative, ExplicitModuleSectionInfo, MayAllocateDuringUnwind, Module, UnwindRegsNative, Unwinder,
    UnwinderNative,
};
use object::read::ReadCache;
use object::{Object, ObjectSection};

use crate::sampler::{Registers, Sample};
use crate::symbols::MappedFile;

/// Maximum number of calls of a sample; deeper stacks are truncated.
const FRAMES_MAX: usize = 192;

/// Unwinds the stacks of this process.
pub(crate) struct StackReader {
    unwinder: UnwinderNative<Vec<u8>, MayAllocateDuringUnwind>,
    cache: CacheNative<MayAllocateDuringUnwind>,
}

impl StackReader {
    pub(crate) fn new(files: &[MappedFile]) -> Self {
        let mut unwinder = UnwinderNative::new();
        for file in files {
            if let Some(sections) = read_sections(file) {
                let name = file.path.display().to_string();
                unwinder.add_module(Module::new(name, file.range.clone(), file.base(), sections));
            }
        }
        Self { unwinder, cache: CacheNative::default() }
    }

    /// Addresses to look up, innermost first. If a frame cannot be unwound, the list ends there.
    pub(crate) fn addresses(&mut self, sample: &Sample) -> Vec<u64> {
        let registers = sample.registers;
        let mut read = |address: u64| -> Result<u64, ()> {
            let offset = address.checked_sub(registers.stack_pointer).ok_or(())?;
            let word = usize::try_from(offset / 8).map_err(drop)?;
            sample.stack.get(word).copied().filter(|_| offset % 8 == 0).ok_or(())
        };
        let mut frames = self.unwinder.iter_frames(
            registers.program_counter,
            unwind_registers(&registers),
            &mut self.cache,
            &mut read,
        );
        let mut addresses = Vec::with_capacity(32);
        while let Ok(Some(frame)) = frames.next() {
            addresses.push(frame.address_for_lookup());
            if addresses.len() == FRAMES_MAX {
                break;
            }
        }
        addresses
    }
}

#[cfg(not(target_arch = "aarch64"))]
fn unwind_registers(registers: &Registers) -> UnwindRegsNative {
    UnwindRegsNative::new(registers.program_counter, registers.stack_pointer, registers.frame_pointer)
}

#[cfg(target_arch = "aarch64")]
fn unwind_registers(registers: &Registers) -> UnwindRegsNative {
    UnwindRegsNative::new(registers.link, registers.stack_pointer, registers.frame_pointer)
}

fn read_sections(file: &MappedFile) -> Option<ExplicitModuleSectionInfo<Vec<u8>>> {
    let cache = ReadCache::new(File::open(&file.path).ok()?);
    let object = object::File::parse(&cache).ok()?;
    let range = |name: &str| -> Option<Range<u64>> {
        let section = object.section_by_name(name)?;
        Some(section.address()..section.address() + section.size())
    };
    let data = |name: &str| Some(object.section_by_name(name)?.data().ok()?.to_vec());
    Some(ExplicitModuleSectionInfo {
        base_svma: object.relative_address_base(),
        text_svma: range(".text"),
        text: data(".text"),
        got_svma: range(".got"),
        eh_frame_svma: range(".eh_frame"),
        eh_frame: data(".eh_frame"),
        eh_frame_hdr_svma: range(".eh_frame_hdr"),
        eh_frame_hdr: data(".eh_frame_hdr"),
        ..ExplicitModuleSectionInfo::default()
    })
}
