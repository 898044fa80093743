//! `upesi dfsp bind`, `unbind` and `revoke-key`, and `upesi block`: proofs that a client is a DFSP, and blocks.

use clap::{Args, Subcommand};
use serde::Deserialize;
use serde_json::json;
use upesi_http::Method;
use upesi_process::exit::Outcome;
use upesi_process::values::dfsp_name;
use upesi_types::FspId;
use upesi_types::text::{Escaped, path, url_part};

use super::calls::{Calls, ChangeOptions, ListOptions, done, instant_cell};
use super::table::{Cell, Column, Table};

/// A kind and a value, such as `spki-sha256:9f86d0…`. The hub validates both.
#[derive(Clone, Debug)]
pub struct KindAndValue {
    kind: String,
    value: String,
}

impl KindAndValue {
    fn parse(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            Some((kind, value)) if !kind.is_empty() && !value.is_empty() => {
                Ok(Self { kind: kind.to_owned(), value: value.to_owned() })
            }
            _ => Err("write it as KIND:VALUE, such as spki-sha256:9f86d0…".to_owned()),
        }
    }

    fn body(&self) -> serde_json::Value {
        json!({"kind": self.kind, "value": self.value})
    }

    /// Kind and value as the query of a DELETE request.
    fn query(&self) -> String {
        format!("kind={}&value={}", url_part(&self.kind), url_part(&self.value))
    }
}

impl std::fmt::Display for KindAndValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", Escaped(&self.kind), Escaped(&self.value))
    }
}

/// Arguments of `upesi dfsp bind` and `upesi dfsp unbind`.
#[derive(Args, Clone, Debug)]
pub struct BindArguments {
    /// The DFSP.
    #[arg(value_name = "DFSP", value_parser = dfsp_name)]
    pub dfsp: FspId,
    /// The binding: KIND:VALUE, as `upesi pki issue` and `upesi dfsp show` print it. Kinds: spki-sha256, cert-sha256,
    /// san-uri, san-dns, subject, gateway, oauth-client.
    #[arg(value_name = "BINDING", value_parser = KindAndValue::parse)]
    pub binding: KindAndValue,
    #[command(flatten)]
    pub change: ChangeOptions,
}

/// Arguments of `upesi dfsp revoke-key`.
#[derive(Args, Clone, Debug)]
pub struct RevokeKeyArguments {
    /// The DFSP.
    #[arg(value_name = "DFSP", value_parser = dfsp_name)]
    pub dfsp: FspId,
    /// SHA-256 of the public key, as `upesi dfsp show` prints it, with or without the prefix `sha256:`.
    #[arg(value_name = "SHA256")]
    pub digest: String,
    #[command(flatten)]
    pub change: ChangeOptions,
}

/// Subcommands of `upesi block`.
#[derive(Debug, Subcommand)]
pub enum BlockCommand {
    /// List blocks, newest first.
    List(ListOptions),
    /// Block a key, a certificate or a DFSP immediately, also after restarts. This needs no second person.
    Add(BlockArguments),
    /// Lift a block. A second person must approve it.
    Lift(BlockArguments),
}

/// Arguments of `upesi block add` and `upesi block lift`.
#[derive(Args, Clone, Debug)]
pub struct BlockArguments {
    /// spki-sha256:DIGEST of a key, cert-sha256:DIGEST of a certificate, or participant:NAME.
    #[arg(value_name = "KIND:VALUE", value_parser = KindAndValue::parse)]
    pub block: KindAndValue,
    #[command(flatten)]
    pub change: ChangeOptions,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Block {
    kind: String,
    value: String,
    created_date: String,
}

fn bindings_of(dfsp: FspId) -> String {
    path(&["participants", dfsp.as_str(), "bindings"])
}

/// Binds a key, a name, a client or a gateway to a DFSP.
pub fn bind(BindArguments { dfsp, binding, change }: BindArguments) -> Outcome {
    Calls::for_change(change)?.send(Method::POST, &bindings_of(dfsp), &binding.body())?;
    done(&format!("{dfsp} is bound to {binding}"))
}

/// Removes a binding.
pub fn unbind(BindArguments { dfsp, binding, change }: BindArguments) -> Outcome {
    let path = format!("{}?{}", bindings_of(dfsp), binding.query());
    Calls::for_change(change)?.delete(&path)?;
    done(&format!("{dfsp} is no longer bound to {binding}"))
}

/// Revokes a signing key.
pub fn revoke_key(RevokeKeyArguments { dfsp, digest, change }: RevokeKeyArguments) -> Outcome {
    let digest = digest.strip_prefix("sha256:").unwrap_or(&digest);
    let path = path(&["participants", dfsp.as_str(), "signatureKeys", digest]);
    Calls::for_change(change)?.delete(&path)?;
    done(&format!("the key {} of {dfsp} is revoked", Escaped(digest)))
}

const BLOCKS: &str = "/blocks";

const COLUMNS: &[Column] = &[Column::text("created"), Column::text("kind"), Column::text("value")];

/// Runs a subcommand of `upesi block`.
pub fn blocks(command: BlockCommand) -> Outcome {
    match command {
        BlockCommand::List(ListOptions { list, zone, hub }) => {
            let zone = zone.chosen();
            let mut table = Table::new(COLUMNS);
            for (block, json) in Calls::to(hub)?.items::<Block>(BLOCKS)? {
                let created = instant_cell(Some(&block.created_date), &zone);
                table.add(vec![created, Cell::text(&block.kind), Cell::text(&block.value)], json);
            }
            table.print(&list, "-created")
        }
        BlockCommand::Add(BlockArguments { block, change }) => {
            Calls::for_change(change)?.send(Method::POST, BLOCKS, &block.body())?;
            done(&format!("{block} is blocked"))
        }
        BlockCommand::Lift(BlockArguments { block, change }) => {
            Calls::for_change(change)?.delete(&format!("{BLOCKS}?{}", block.query()))?;
            done(&format!("{block} is no longer blocked"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_may_have_colons() {
        let read = |text| KindAndValue::parse(text).map(|read| (read.kind.clone(), read.query()));
        let gateway = "gateway:spki-sha256:9f86;client=greenbank";
        let query = "kind=gateway&value=spki-sha256%3A9f86%3Bclient%3Dgreenbank".to_owned();
        assert_eq!(read(gateway), Ok(("gateway".to_owned(), query)));
        for text in ["", "greenbank", ":x", "participant:"] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
