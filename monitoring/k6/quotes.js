// Quotes between simulated DFSPs: POST /quotes until the payer's callback. See README.md.

import { options, pair, quote, trace } from './common.js';

export { options };

export default function () {
  const [payer, payee] = pair();
  quote(payer, payee, trace());
}
