// Lookups of mobile numbers: GET /parties until the sender's callback. See README.md.

import { lookup, options, pair, registerParties, trace } from './common.js';

export { options };

export function setup() {
  registerParties();
}

export default function () {
  const [payer, payee] = pair();
  lookup(payer, payee, trace());
}
