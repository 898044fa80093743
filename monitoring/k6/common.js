// Common parts of all scenarios: parties, ids, headers, and waiting for a callback.
//
// A simulated DFSP (`upesi sim --sockets ADDRESS`) reports callbacks on web sockets: a client that opens
// ws://ADDRESS/<trace id>/PUT/<path> gets one text when a callback with that trace id and path, or its error, has
// arrived.

import { check } from 'k6';
import encoding from 'k6/encoding';
import http from 'k6/http';
import { Trend } from 'k6/metrics';
import ws from 'k6/ws';

const env = (name, fallback) => __ENV[name] || fallback;

export const HUB = env('HUB', 'http://127.0.0.1:4000');
export const SOCKETS = env('SOCKETS', 'ws://127.0.0.1:5001');
export const CURRENCY = env('CURRENCY', 'KES');
const DFSPS = Number(env('DFSPS', '8'));
const PATIENCE_MS = Number(env('PATIENCE_MS', '5000'));
const UNIDIRECTIONAL = env('UNIDIRECTIONAL', '') === 'true';
const AMOUNT = env('AMOUNT', '2');
const HEX = '0123456789abcdef';

/** From opening the socket to the callback, by phase. */
export const endToEnd = new Trend('upesi_end_to_end', true);

// Load: with RATE, this many iterations start per second, even if earlier ones have not ended (open loop). Without RATE,
// each of VUS users makes one iteration after the other (closed loop). Checks are thresholds too: a lost callback fails
// the run.
const seconds = env('SECONDS', '10');
const rate = Number(env('RATE', '0'));
const vus = Number(env('VUS', '8'));
export const options = {
  scenarios: {
    load: rate > 0
      ? { executor: 'constant-arrival-rate', rate, timeUnit: '1s', duration: `${seconds}s`, preAllocatedVUs: Math.max(vus, Math.ceil(rate / 4)), maxVUs: Math.max(50 * vus, rate) }
      : { executor: 'constant-vus', vus, duration: `${seconds}s` },
  },
  thresholds: {
    checks: ['rate>0.999'],
    http_req_failed: ['rate<0.01'],
    upesi_end_to_end: ['p(95)<1000'],
    dropped_iterations: ['count<1'],
  },
  summaryTrendStats: ['avg', 'p(50)', 'p(95)', 'p(99)', 'max'],
};

const random = (below) => Math.floor(Math.random() * below);
const digits = (count) => Array.from({ length: count }, () => HEX[random(16)]).join('');

/** Payer and payee, as numbers from 1. */
export function pair() {
  if (UNIDIRECTIONAL) return [1, 2];
  const payer = random(DFSPS);
  return [payer + 1, ((payer + 1 + random(DFSPS - 1)) % DFSPS) + 1];
}

export const name = (dfsp) => `dfsp-${dfsp}`;

/** A mobile number of a DFSP; simulated DFSPs know theirs by the first six digits. */
export const msisdn = (dfsp, number) => `${260000 + dfsp - 1}${String(number).padStart(9, '0')}`;

/** A random UUID, version 4. */
export function uuid() {
  const text = digits(32);
  return `${text.slice(0, 8)}-${text.slice(8, 12)}-4${text.slice(13, 16)}-${HEX[8 + random(4)]}${text.slice(17, 20)}-${text.slice(20)}`;
}

export const trace = () => digits(32);

const media = (resource, version) => `application/vnd.interoperability.${resource}+json;version=${version}`;

/** Headers of a request that begins something. */
export function headers(resource, version, from, to, traceId) {
  const found = {
    Date: new Date().toUTCString(),
    Accept: media(resource, version.split('.')[0]),
    'Content-Type': media(resource, version),
    'FSPIOP-Source': name(from),
    traceparent: `00-${traceId}-${digits(16)}-01`,
    tracestate: `tx_end2end_start_ts=${Date.now()}`,
  };
  if (to) found['FSPIOP-Destination'] = name(to);
  return found;
}

/**
 * Opens the channel of a callback, sends the request, and waits until the callback is there. Gives whether it was the
 * success.
 */
export function exchange(phase, path, traceId, send) {
  const start = Date.now();
  let accepted = null;
  let told = null;
  const opened = ws.connect(`${SOCKETS}/${traceId}/PUT/${path}`, {}, (socket) => {
    socket.on('open', () => {
      accepted = send();
      if (accepted.status !== 202) socket.close();
    });
    socket.on('message', (text) => {
      told = text;
      endToEnd.add(Date.now() - start, { phase });
      socket.close();
    });
    socket.setTimeout(() => socket.close(), PATIENCE_MS);
  });
  const checks = {};
  checks[`${phase}: the channel opened`] = () => opened && opened.status === 101;
  checks[`${phase}: 202`] = () => accepted !== null && accepted.status === 202;
  checks[`${phase}: callback`] = () => told === 'SUCCESS_CALLBACK_RECEIVED';
  check(null, checks, { phase });
  return told === 'SUCCESS_CALLBACK_RECEIVED';
}

/** Asks who has a number. */
export function lookup(payer, payee, traceId) {
  const path = `parties/MSISDN/${msisdn(payee, 1)}`;
  return exchange('discovery', path, traceId, () =>
    http.get(`${HUB}/${path}`, { headers: headers('parties', '1.1', payer, null, traceId), tags: { name: 'GET /parties' } }));
}

const party = (dfsp) => ({
  partyIdInfo: { partyIdType: 'MSISDN', partyIdentifier: msisdn(dfsp, 1), fspId: name(dfsp) },
});

/** Asks for terms. */
export function quote(payer, payee, traceId) {
  const quoteId = uuid();
  const body = JSON.stringify({
    quoteId,
    transactionId: uuid(),
    payer: party(payer),
    payee: party(payee),
    amountType: 'SEND',
    amount: { amount: AMOUNT, currency: CURRENCY },
    transactionType: { scenario: 'TRANSFER', initiator: 'PAYER', initiatorType: 'CONSUMER' },
  });
  return exchange('agreement', `quotes/${quoteId}`, traceId, () =>
    http.post(`${HUB}/quotes`, body, { headers: headers('quotes', '1.1', payer, payee, traceId), tags: { name: 'POST /quotes' } }));
}

// The hub forwards the packet without reading it. Test tools and simulated payees know the fulfilment of this condition.
const PACKET = encoding.b64encode(`upesi k6 ${AMOUNT} ${CURRENCY}`, 'rawurl');
const CONDITION = 'GIxd5xcohkmnnXolpTv_OxwpyaH__Oiq49JTvCo8pyA';

/** Pays. */
export function transfer(payer, payee, traceId) {
  const transferId = uuid();
  const body = JSON.stringify({
    transferId,
    payerFsp: name(payer),
    payeeFsp: name(payee),
    amount: { amount: AMOUNT, currency: CURRENCY },
    ilpPacket: PACKET,
    condition: CONDITION,
    expiration: new Date(Date.now() + 60000).toISOString(),
  });
  return exchange('transfer', `transfers/${transferId}`, traceId, () =>
    http.post(`${HUB}/transfers`, body, { headers: headers('transfers', '1.1', payer, payee, traceId), tags: { name: 'POST /transfers' } }));
}

/** Registers one party of each DFSP in the hub's directory. */
export function registerParties() {
  for (let dfsp = 1; dfsp <= DFSPS; dfsp += 1) {
    const path = `participants/MSISDN/${msisdn(dfsp, 1)}`;
    const traceId = trace();
    const body = JSON.stringify({ fspId: name(dfsp), currency: CURRENCY });
    const registered = exchange('registration', path, traceId, () =>
      http.post(`${HUB}/${path}`, body, { headers: headers('participants', '1.1', dfsp, null, traceId), tags: { name: 'POST /participants' } }));
    if (!registered) throw new Error(`${name(dfsp)} could not register its party: is it onboarded, and does ${SOCKETS} belong to its simulator?`);
  }
}
