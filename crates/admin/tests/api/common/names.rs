//! The names of errors, by their texts: every error in the answers of these tests has the name of this table.

use serde_json::Value;
use upesi_admin::ErrorName;
use upesi_types::ErrorCode;

/// A name, and a text after the standard text of the code. `*` stands for any characters.
const TABLE: &str = "
    settlement_change_invalid             No other properties are allowed when participants is provided
    settlement_change_invalid             Invalid request payload input
    element_missing                       State and reason are mandatory
    element_missing                       \"oracleIdType\" is required
    element_missing                       \"endpoint\" is required
    element_missing                       \"endpoint.*\" is required
    filter_required                       Use at least one parameter: *
    nothing_found                         Settlements not found
    nothing_found                         settlementWindow by filters not found
    body_too_large                        Payload content length greater than maximum allowed: *
    body_late                             the request body was not received in time
    path_not_found                        Unknown URI
    method_not_allowed                    This resource does not support this method
    host_not_allowed                      host '*' is not in admin.allowed_hosts
    site_not_allowed                      A page of another site caused this request: see admin.allowed_origins

    internal                              The transaction of this transfer cannot be shown: *
    archive_unreadable                    the archive of finished transfers cannot be read: *
    journal_unreadable                    the journal cannot be read: *
    store_failed                          the store in *
    store_unavailable                     the store in *
    store_unavailable                     the store is *
    store_unavailable                     the disk of *
    busy                                  the hub is busy
    busy                                  Other clients are reading the *: try again
    too_many_connections                  Too many connections
    disk_full                             the hub's disk is full
    stopping                              the hub no longer accepts commands
    follower                              This node is a follower; the leader is node * at *
    follower                              This node is a follower, and the cluster has no leader
    follower_not_ready                    This node has not read the log yet
    follower_not_ready                    This node has not read its copy yet
    no_cluster                            This hub is not a node of a cluster
    no_directory                          This hub has no party directory
    handover_failed                       another node is now the leader: *
    handover_failed                       shut down
    already_leader                        This node is already the leader
    profiling_off                         Profiling is off, because admin.profiling is false
    profiling_busy                        another profile is being taken, try again when it is done

    unauthenticated                       A token is required: Authorization: Bearer TOKEN
    too_many_wrong_credentials            Too many wrong credentials from this address
    permission_missing                    needs the permission *
    other_participant                     is not of participant *
    emergency_only                        a break-glass token may only reactivate an inactive iam-admin
    authentication_off                    This hub has no authentication, because admin.authentication is off
    login_wrong                           Name, password or code is wrong
    too_many_logins                       Too many attempts: try again in * s
    logins_busy                           Other logins are in progress: try again
    enrolment_invalid                     This enrolment does not exist, or was used, or has expired
    enrolment_code_wrong                  The code is wrong: check the clock of the device
    code_used                             The code was used before: wait for the next one
    session_missing                       The caller has not logged in with a password
    session_missing                       The caller has not logged in at the hub
    session_not_found                     You have no session *
    operator_not_found                    Operator '*' does not exist
    operator_exists                       Operator '*' already exists
    operator_participant_fixed            \"participant\" of an operator cannot be changed
    role_scope_mismatch                   Roles of a DFSP need a participant; other roles must not have one
    roles_excluded                        No operator has the roles * and * together
    too_many_operators                    A hub has at most * operators
    credential_not_found                  The operator has no such credential
    credential_lifetime                   A token must expire in the future and within *
    too_many_credentials                  An operator has at most * credentials
    checkpoints_off                       This hub does not sign checkpoints: admin.audit_key_file is not set

    reason_required                       A second person must approve this: give a reason of * or more characters (Upesi-Reason)
    approval_not_found                    Approval * does not exist, or it ended long ago
    approval_not_found                    This approval does not exist, or it ended long ago
    approval_ended                        The approval's state does not permit this: it is *
    approval_own                          Another operator must decide about your proposal; you may withdraw it
    approval_of_another                   Only the operator who proposed it may withdraw it
    approval_pending                      Approval * is pending for the same movement of funds
    maker_not_permitted                   The proposer no longer has the permission for this: reject it
    approver_not_user                     Only users may approve: *
    approver_login_old                    Approving needs a code from the last 5 minutes: upesi admin login --renew
    approver_login_old                    Log in again: approving needs a recent login
    approver_factor_missing               Log in by another method: approving needs a second factor
    too_many_approvals                    At most * approvals can be pending, * of one operator
    approvals_too_large                   The pending approvals have reached their maximum size: have some decided first
    policy_invalid                        A change in the safe direction never needs a second person
    change_set_size                       A change set has 1 to * changes and at most * KiB
    change_set_kind                       This change cannot be part of a change set
    change_set_kind                       it cannot be part of a change set
    change_set_skips_account              Change *: State change not allowed
    too_many_change_sets                  At most * change sets of one operator can be pending

    participant_not_found                 Participant '*' does not exist
    participant_currency_exists           Participant currency has already been registered
    participant_currency_not_found        Participant '*' has no accounts in *
    participant_name_similar              Participant name differs from another one in case only
    too_many_participants                 A scheme has at most * participants
    binding_not_found                     The participant has no such binding
    binding_taken                         Participant '*' has this binding
    binding_of_gateway                    Participant '*' has this certificate: it can belong either to a DFSP or to a gateway
    binding_of_hub                        The hub cannot have bindings
    too_many_bindings                     A participant has at most * bindings
    block_not_found                       This block does not exist
    block_of_hub                          The hub cannot be blocked
    too_many_blocks                       A hub has at most * blocks
    not_a_proxy                           Participant '*' is not a proxy
    proxied_not_found                     '*' is not behind the proxy '*'
    proxied_is_participant                '*' is a participant of this scheme
    participant_is_proxied                '*' is behind the proxy '*', so it has no accounts, endpoints or bindings of its own
    proxied_by_another                    '*' is behind the proxy '*'
    signature_key_not_found               The participant has no such key
    signature_key_taken                   Participant '*' has this signing key
    signature_key_taken                   Participant '*' has this key in its file
    signature_key_revoked                 This key was revoked, which is permanent
    signature_key_waiting                 Another key of the participant has not started yet
    signature_key_times                   A key must start before its certificate ends, and may overlap with *
    signature_key_of_hub                  The hub's own keys are in files
    too_many_signature_keys               A participant has at most * keys that are not revoked or ended
    too_many_revoked_keys                 At most * revoked keys of a participant are retained

    account_not_found                     Account not found
    account_of_another                    Participant/account mismatch
    account_not_position                  Only position account update is permitted
    account_not_settlement                Account is not SETTLEMENT type
    account_not_open                      The account has no balance yet: set initialPositionAndLimits first
    account_inactive                      Account is currently set inactive
    position_account_not_found            Participant '*' has no POSITION account in *
    too_many_accounts                     A scheme has at most * accounts
    hub_account_not_found                 Hub * account for the specified currency does not exist
    hub_account_exists                    Hub account has already been registered.
    hub_account_only                      Endpoint is reserved for creation of Hub account types only.
    hub_account_type_not_allowed          The requested hub operator account type is not allowed.
    hub_account_participant_not_found     Participant was not found.
    hub_reconciliation_account_not_found  The hub has no HUB_RECONCILIATION account in *
    hub_settlement_account_not_found      The hub has no HUB_MULTILATERAL_SETTLEMENT account in *
    account_type_not_found                Ledger account type was not found*
    account_type_not_found                Settlement account type was not found
    account_type_not_settled              Accounts of type * are not settled
    account_type_exists                   This Ledger Account Type already exists
    too_many_account_types                A hub has at most * ledger account types
    limit_exists                          Participant Limit or Initial Position already set
    limit_not_found                       Participant '*' has no limit in * yet: set initialPositionAndLimits first
    initial_position_beyond_cap           The initial position exceeds the net debit cap
    initial_position_too_large            The initial position exceeds the amount that the hub's account can hold
    balance_too_large                     The balance cannot hold the amount

    funds_not_found                       This account has no such movement of funds
    funds_modified                        transferId was used for another movement of funds
    funds_id_of_transfer                  transferId was used for a transfer
    funds_account_mismatch                The account does not match participant or currency specified
    funds_final                           The movement of funds is * already
    withdrawal_expired                    The withdrawal expired
    too_many_funds                        A hub stores at most * movements of funds

    settlement_model_not_found            Settlement Model '*' does not exist
    settlement_model_exists               Settlement Model already exists
    settlement_model_conflict             Settlement Model '*' already governs this currency and account type
    settlement_model_unsupported          Settlement models cannot be *
    settlement_model_cover                * accounts are covered by SETTLEMENT accounts, and not by *
    settlement_model_stops_payments       * would have no model for POSITION accounts, and so no payments: *
    settlement_model_missing              Unable to find a matching or default, Settlement Model
    too_many_settlement_models            A hub has at most * settlement models
    window_not_found                      Window * does not exist
    window_not_open                       Window * is not open
    window_empty                          Window * is empty
    window_pairs_not_retained             The sums of window * are no longer retained
    too_many_windows                      A hub has at most * settlement windows
    too_many_unsettled_windows            Too many windows are not settled: settle some before another is closed
    settlement_not_found                  Settlement not found
    settlement_not_found                  Settlement with ID '*' not found
    settlement_participant_not_found      Participant * not in settlement *
    settlement_account_not_found          Account * not in settlement *
    settlement_state_not_allowed          State change is not allowed
    settlement_committed                  At least one settlement transfer is committed. Aborting is not allowed.
    settlement_model_unusable             Settlement model not found: *
    settlement_model_gross                Settlement can not be created for GROSS or IMMEDIATE models
    windows_not_applicable                Inapplicable windows *
    too_many_windows_of_settlement        A settlement has at most * windows
    too_many_settlements                  A hub has at most * settlements, with * accounts
    fee_rule_not_found                    This fee rule does not exist
    fee_rule_exists                       A fee rule of that name exists
    fee_rule_invalid                      A fee is 0 to * millionths of the amount, *
    fee_rule_invalid                      A fee rule's name has 2 to 30 alphanumeric characters
    fee_rule_invalid                      The fee rule has amounts with more decimals than *
    fee_rule_times                        A fee rule must not begin in the past, and must end after its beginning
    too_many_fee_rules                    A hub has at most * fee rules, and * that have not ended

    transfer_not_found                    This transfer does not exist
    transfer_not_found                    Transfer * does not exist
    transaction_not_found                 Transfer * does not exist
    transfer_final                        The transfer is final in state *; only a reservation can be ended
    request_not_retained                  The journal does not store the bodies of rejected requests
    request_not_retained                  The journal no longer holds the request of this transfer
    quote_not_found                       The hub has no quote *
    quotes_off                            This hub does not store quotes, because quotes.persist is off
    callback_not_found                    No undelivered callback has this key
    nothing_parked                        None of these callbacks is parked

    party_not_found                       Party not found
    party_taken                           Party already exists *
    too_many_party_entries                The party has the maximum of * entries
    import_gap                            the import continues at line *
    oracle_not_found                      Oracle not found
    oracle_exists                         Oracle * is already active for *
    oracle_invalid                        \"*\" must be one of [*]
    oracle_invalid                        \"currency\" must be a currency code in capital letters, such as USD
    too_many_oracles                      The registry has the maximum of * oracles; delete one first
";

/// The name of the error with this code and description. Malformed requests and internal errors have many texts.
pub fn name_of(code: u16, description: &str) -> ErrorName {
    let code = ErrorCode::from_number(code).unwrap();
    let detail = code.detail_of(description);
    let in_set = match detail.strip_prefix("Change ").and_then(|rest| rest.split_once(": ")) {
        Some((number, rest)) if number.parse::<u32>().is_ok() => rest,
        _ => detail,
    };
    let rows = TABLE.lines().map(str::trim).filter(|row| !row.is_empty());
    let mut rows = rows.map(|row| row.split_once(' ').unwrap());
    let named = rows.find_map(|(word, text)| {
        let name = ErrorName::parse(word).unwrap_or_else(|| panic!("{word} is not a name"));
        (name.code() == code && (fits(text.trim(), detail) || fits(text.trim(), in_set))).then_some(name)
    });
    match named {
        Some(name) => name,
        None if code == ErrorCode::MALFORMED_SYNTAX => ErrorName::Malformed,
        None if code == ErrorCode::INTERNAL => ErrorName::Internal,
        None => panic!("the table has no name for {code} {description}"),
    }
}

/// Asserts that an answer has the name of its code and description, if it is an error.
pub fn check(head: &str, body: &str) {
    let status = head.split(' ').nth(1).unwrap();
    let Ok(answer) = serde_json::from_str::<Value>(body) else { return };
    let Some(error) = answer.get("errorInformation").filter(|_| status >= "400") else { return };
    let [code, description] = ["errorCode", "errorDescription"].map(|name| error[name].as_str().unwrap());
    let expected = name_of(code.parse().unwrap(), description);
    assert_eq!(error["errorName"], expected.as_str(), "{body}");
    assert_eq!(expected.code().number().to_string(), code, "{body}");
}

fn fits(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((start, rest)) => text.strip_prefix(start).is_some_and(|text| {
            text.char_indices().map(|(at, _)| at).chain([text.len()]).any(|at| fits(rest, &text[at..]))
        }),
    }
}
