// Whole payments: a lookup, a quote and a transfer, one after the other, under one trace. See README.md.

import { lookup, options, pair, quote, registerParties, trace, transfer } from './common.js';

export { options };

export function setup() {
  registerParties();
}

export default function () {
  const [payer, payee] = pair();
  const traceId = trace();
  if (lookup(payer, payee, traceId) && quote(payer, payee, traceId)) transfer(payer, payee, traceId);
}
