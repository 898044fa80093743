// An OpenID Connect provider for tests/oidc_provider.rs: PORT KID AUDIENCE. Prints "ready" once it listens.
import { generateKeyPairSync } from 'node:crypto';
import { Provider } from 'oidc-provider';

const [port, kid, audience] = process.argv.slice(2);
const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
const key = { ...privateKey.export({ format: 'jwk' }), kid, use: 'sig', alg: 'RS256' };
const client = (client_id) => ({
  client_id,
  client_secret: 'secret',
  token_endpoint_auth_method: 'client_secret_post',
  grant_types: ['client_credentials'],
  redirect_uris: [],
  response_types: [],
});
const resource = (_context, audience) => ({
  scope: '',
  audience,
  accessTokenFormat: 'jwt',
  accessTokenTTL: 300,
});
const provider = new Provider(`http://127.0.0.1:${port}`, {
  clients: [client('treasury-app'), client('other-app')],
  jwks: { keys: [key] },
  features: {
    clientCredentials: { enabled: true },
    devInteractions: { enabled: false },
    resourceIndicators: {
      enabled: true,
      defaultResource: () => audience,
      getResourceServerInfo: resource,
    },
  },
  extraTokenClaims: () => ({ groups: ['hub-treasury', 'canteen'] }),
});
provider.listen(Number(port), '127.0.0.1', () => console.log('ready'));
