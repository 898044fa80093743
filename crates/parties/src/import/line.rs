//! Parses one line of a file of parties.

use std::borrow::Cow;

use upesi_types::{Currency, FspId};

use crate::party::{DirectoryEntry, PartyIdType, check_identifier};

/// Maximum length of a line, in bytes: five fields of maximum length, quoted and in four-byte characters, are shorter.
pub const LINE_BYTES_MAX: usize = 4096;

/// The columns of a file of parties, in the order that applies without a header line.
pub const COLUMNS: [&str; 5] = ["partyIdType", "partyIdentifier", "partySubIdOrType", "currency", "fspId"];

const KIND: usize = 0;
const ID: usize = 1;
const SUB_ID: usize = 2;
const CURRENCY: usize = 3;
const FSP: usize = 4;

/// Maps fields of a line to columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Columns {
    /// For each of [`COLUMNS`] its index in the line; `None`: not in the file, so always empty.
    places: [Option<usize>; COLUMNS.len()],
    /// Number of fields in a line.
    count: usize,
}

impl Default for Columns {
    fn default() -> Self {
        Self { places: std::array::from_fn(Some), count: COLUMNS.len() }
    }
}

impl Columns {
    /// Parses a header line. Sub id and currency may be missing; names are compared without regard to case.
    ///
    /// Errors: description of the fault.
    pub fn parse(header: &str) -> Result<Self, String> {
        let header = header.strip_prefix('\u{feff}').unwrap_or(header);
        let fields = split(header.trim_end_matches(['\r', '\n'])).map_err(str::to_owned)?;
        if let [only] = &*fields
            && only.contains(';')
        {
            return Err(format!("its columns are separated by semicolons, not by commas; {EXPECTED}"));
        }
        let mut places = [None; COLUMNS.len()];
        for (place, name) in fields.iter().enumerate() {
            let known = COLUMNS.iter().position(|column| column.eq_ignore_ascii_case(name.trim()));
            let column = known.ok_or_else(|| format!("unknown column {name:?}; {EXPECTED}"))?;
            if places[column].replace(place).is_some() {
                return Err(format!("the column {} occurs twice", COLUMNS[column]));
            }
        }
        match [KIND, ID, FSP].into_iter().find(|column| places[*column].is_none()) {
            Some(missing) => Err(format!("the column {} is missing; {EXPECTED}", COLUMNS[missing])),
            None => Ok(Self { places, count: fields.len() }),
        }
    }

    /// Parses a line; `None` if it is blank or, as spreadsheets write it, has only empty cells.
    ///
    /// Errors: the reason why it is not an entry.
    pub fn entry(&self, line: &str) -> Option<Result<DirectoryEntry, String>> {
        let line = line.strip_suffix('\r').unwrap_or(line);
        if line.len() > LINE_BYTES_MAX {
            return Some(Err(format!("the line has more than {LINE_BYTES_MAX} bytes")));
        }
        match split(line) {
            Ok(fields) if fields.iter().all(|field| field.trim().is_empty()) => None,
            Ok(fields) => Some(self.read(&fields)),
            Err(mistake) => Some(Err(mistake.to_owned())),
        }
    }

    pub(super) fn read(&self, fields: &[Cow<'_, str>]) -> Result<DirectoryEntry, String> {
        if fields.len() != self.count {
            return Err(format!("the line has {} fields instead of {}", fields.len(), self.count));
        }
        let field = |column: usize| self.places[column].map_or("", |place| fields[place].trim());
        let kind = PartyIdType::parse(field(KIND))
            .ok_or_else(|| format!("partyIdType {:?} is not an FSPIOP type", field(KIND)))?;
        let sub_id = Some(field(SUB_ID)).filter(|text| !text.is_empty());
        check_identifier(kind, field(ID), sub_id)?;
        let currency = match field(CURRENCY) {
            "" => None,
            text => Some(
                Currency::parse(text)
                    .ok_or_else(|| format!("currency {text:?} is not an ISO 4217 code in capital letters"))?,
            ),
        };
        let fsp = FspId::parse(field(FSP))
            .ok_or_else(|| format!("fspId {:?} cannot be the name of a DFSP", field(FSP)))?;
        Ok(DirectoryEntry { kind, id: field(ID).into(), sub_id: sub_id.map(Into::into), currency, fsp })
    }
}

const EXPECTED: &str = "expected are partyIdType,partyIdentifier,partySubIdOrType,currency,fspId";

/// The fields of a line of comma-separated values (RFC 4180, without line breaks in fields).
fn split(line: &str) -> Result<Vec<Cow<'_, str>>, &'static str> {
    let mut fields = Vec::with_capacity(COLUMNS.len());
    let mut rest = line;
    loop {
        let (field, after) = match rest.strip_prefix('"') {
            None => {
                let end = rest.find(',').unwrap_or(rest.len());
                (Cow::Borrowed(&rest[..end]), &rest[end..])
            }
            Some(quoted) => unquote(quoted)?,
        };
        fields.push(field);
        match after.strip_prefix(',') {
            Some(next) => rest = next,
            None if after.is_empty() => return Ok(fields),
            None => return Err("a closing quote is not followed by a comma"),
        }
    }
}

/// The field after an opening quote, and the text after its closing quote.
fn unquote(mut rest: &str) -> Result<(Cow<'_, str>, &str), &'static str> {
    let mut field = Cow::Borrowed("");
    loop {
        let end = rest.find('"').ok_or("a quote is not closed in its line")?;
        match &mut field {
            Cow::Borrowed("") => field = Cow::Borrowed(&rest[..end]),
            other => other.to_mut().push_str(&rest[..end]),
        }
        rest = &rest[end + 1..];
        match rest.strip_prefix('"') {
            // Two quotes represent one.
            Some(after) => {
                field.to_mut().push('"');
                rest = after;
            }
            None => return Ok((field, rest)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_split_into_fields() {
        for (line, fields) in [
            ("a,b,c", Ok(vec!["a", "b", "c"])),
            ("", Ok(vec![""])),
            (",", Ok(vec!["", ""])),
            (r#""a","b,c","""d"" e""#, Ok(vec!["a", "b,c", "\"d\" e"])),
            (r#""""#, Ok(vec![""])),
            (r#"a"b,c"#, Ok(vec!["a\"b", "c"])),
            (r#""a"#, Err(())),
            (r#""a"b,c"#, Err(())),
        ] {
            let found = split(line).map_err(drop);
            let found = found.map(|fields| fields.iter().map(|field| field.to_string()).collect::<Vec<_>>());
            assert_eq!(found, fields.map(|fields| fields.into_iter().map(str::to_owned).collect()), "{line}");
        }
    }

    #[test]
    fn header_line_defines_the_columns() {
        assert_eq!(Columns::parse(&COLUMNS.join(",")), Ok(Columns::default()));
        assert_eq!(Columns::parse(&format!("\u{feff}{}\r\n", COLUMNS.join(","))), Ok(Columns::default()));
        let columns = Columns::parse("FSPID, partyidtype ,\"partyIdentifier\"").unwrap();
        let entry = columns.entry("greenbank,MSISDN,26097\r").unwrap().unwrap();
        assert_eq!(
            (entry.fsp.as_str(), &*entry.id, entry.sub_id, entry.currency),
            ("greenbank", "26097", None, None)
        );
        for (header, said) in [
            ("", "unknown column \"\""),
            ("partyIdType,partyIdentifier", "fspId is missing"),
            ("partyIdType,partyIdentifier,fspId,fspId", "twice"),
            ("MSISDN,26097,,,greenbank", "unknown column \"MSISDN\""),
            ("\"partyIdType", "not closed"),
            ("partyIdType;partyIdentifier;fspId", "separated by semicolons, not by commas"),
        ] {
            let error = Columns::parse(header).unwrap_err();
            assert!(error.contains(said), "{header}: {error}");
        }
    }

    #[test]
    fn line_is_an_entry_or_has_a_reason() {
        let columns = Columns::default();
        let entry = columns.entry("BUSINESS, acme ,till-7,USD,greenbank").unwrap().unwrap();
        assert_eq!(
            (entry.kind, &*entry.id, entry.sub_id.as_deref()),
            (PartyIdType::Business, "acme", Some("till-7"))
        );
        assert_eq!(entry.currency, Currency::parse("USD"));
        for blank in ["", "  \r", ",,,,", " , ,\t,,\r", ",", ",,,,,,", r#""","",,,"#] {
            assert!(columns.entry(blank).is_none(), "{blank:?}");
        }
        for (line, said) in [
            ("MSISDN,26097,,greenbank", "4 fields instead of 5"),
            ("PHONE,26097,,,greenbank", "partyIdType \"PHONE\""),
            ("MSISDN,twelve,,,greenbank", "MSISDN"),
            ("MSISDN,,,,greenbank", "ID"),
            ("MSISDN,26097,a\u{7}b,,greenbank", "SubId"),
            ("MSISDN,26097,,usd,greenbank", "currency \"usd\""),
            ("MSISDN,26097,,,", "fspId \"\""),
            ("MSISDN,26097,,,\"greenbank", "not closed"),
        ] {
            let error = columns.entry(line).unwrap().unwrap_err();
            assert!(error.contains(said), "{line}: {error}");
        }
        let long = format!("MSISDN,{},,,greenbank", "7".repeat(LINE_BYTES_MAX));
        assert!(columns.entry(&long).unwrap().unwrap_err().contains("4096 bytes"));
    }
}
