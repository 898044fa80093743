//! Methods and resource families.

/// The methods of the FSPIOP API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// Ask for the state of something.
    Get,
    /// Begin something.
    Post,
    /// Answer a `POST` or a `GET`.
    Put,
    /// Tell a payee the outcome of its reservation.
    Patch,
    /// Withdraw something.
    Delete,
}

impl Method {
    /// Reads an upper-case method name.
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "GET" => Self::Get,
            "POST" => Self::Post,
            "PUT" => Self::Put,
            "PATCH" => Self::Patch,
            "DELETE" => Self::Delete,
            _ => return None,
        })
    }

    /// The upper-case name, as `FSPIOP-HTTP-Method` carries it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }
}

macro_rules! resources {
    ($($name:ident = $text:literal, $doc:literal;)*) => {
        /// A resource family: the first segment of the path and the name inside the media type.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Resource {
            $(#[doc = $doc] $name,)*
        }

        impl Resource {
            /// Every family.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The name in paths and media types, such as `transfers`.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// Reads the first segment of a path.
            pub fn parse(segment: &str) -> Option<Self> {
                match segment { $($text => Some(Self::$name),)* _ => None }
            }
        }
    };
}

resources! {
    Transfers = "transfers", "Movement of money between two DFSPs.";
    Participants = "participants", "Which DFSP serves a party.";
    Parties = "parties", "Who a party is.";
    Quotes = "quotes", "The terms of one payment.";
    BulkQuotes = "bulkQuotes", "The terms of many payments.";
    BulkTransfers = "bulkTransfers", "Many transfers at once.";
    FxQuotes = "fxQuotes", "The terms of a currency conversion.";
    FxTransfers = "fxTransfers", "A currency conversion.";
    TransactionRequests = "transactionRequests", "A payee asks to be paid.";
    Authorizations = "authorizations", "A payer's consent, asked for at a device of the payee.";
}

impl Resource {
    /// Whether this is a family of quoting, whose messages are always for a named DFSP.
    pub const fn is_quoting(self) -> bool {
        matches!(self, Self::Quotes | Self::BulkQuotes | Self::FxQuotes)
    }

    /// Whether this is a family of requests to be paid. Other hubs keep them in a service of their own, with refusals of
    /// its own.
    pub const fn is_payment_request(self) -> bool {
        matches!(self, Self::TransactionRequests | Self::Authorizations)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for &resource in Resource::ALL {
            assert_eq!(Resource::parse(resource.as_str()), Some(resource));
        }
        for method in [Method::Get, Method::Post, Method::Put, Method::Patch, Method::Delete] {
            assert_eq!(Method::parse(method.as_str()), Some(method));
        }
    }
}
