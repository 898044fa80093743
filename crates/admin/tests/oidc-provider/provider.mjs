// An OpenID Connect provider for tests: PORT KID AUDIENCE REDIRECT_URI. Prints "ready" once it listens.
import { generateKeyPairSync } from 'node:crypto';
import { Provider } from 'oidc-provider';

const [port, kid, audience, redirectUri] = process.argv.slice(2);
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
// The hub's console, which logs users in.
const console_client = {
  client_id: 'console',
  client_secret: 'a secret: 100 %',
  token_endpoint_auth_method: 'client_secret_basic',
  grant_types: ['authorization_code'],
  redirect_uris: [redirectUri],
  response_types: ['code'],
};
const resource = (_context, audience) => ({
  scope: '',
  audience,
  accessTokenFormat: 'jwt',
  accessTokenTTL: 300,
});
// The group of a user is the part of its name after the dot.
const account = (_context, id) => ({
  accountId: id,
  claims: () => ({ sub: id, groups: [`hub-${id.split('.')[1]}`, 'canteen'] }),
});
const provider = new Provider(`http://127.0.0.1:${port}`, {
  clients: [client('treasury-app'), client('other-app'), console_client],
  jwks: { keys: [key] },
  claims: { openid: ['sub', 'groups'] },
  conformIdTokenClaims: false,
  findAccount: account,
  features: {
    clientCredentials: { enabled: true },
    devInteractions: { enabled: true },
    resourceIndicators: {
      enabled: true,
      defaultResource: (_context, client) => (client.clientId === 'console' ? undefined : audience),
      getResourceServerInfo: resource,
    },
  },
  extraTokenClaims: () => ({ groups: ['hub-treasury', 'canteen'] }),
});
provider.listen(Number(port), '127.0.0.1', () => console.log('ready'));
