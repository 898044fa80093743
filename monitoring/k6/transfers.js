// Transfers between simulated DFSPs: POST /transfers until the payer's callback. See README.md.

import { options, pair, trace, transfer } from './common.js';

export { options };

export default function () {
  const [payer, payee] = pair();
  transfer(payer, payee, trace());
}
