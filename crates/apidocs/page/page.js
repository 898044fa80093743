// Shows the document in the same directory as this page. The page sends requests to no other host.
"use strict";

// Light or dark, like the reader's system.
const dark = window.matchMedia("(prefers-color-scheme: dark)");
const follow = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
follow();
dark.addEventListener("change", follow);

const place = document.getElementById("document");

SwaggerUIBundle({
  domNode: place,
  url: "openapi.yaml",
  // The methods that readers can try on this page. On the FSPIOP port there are none, because browsers cannot send a
  // Date header. On the admin port, they are the methods that change nothing.
  supportedSubmitMethods: place.dataset.tryOut ? place.dataset.tryOut.split(" ") : [],
  deepLinking: true,
  docExpansion: "list",
  defaultModelsExpandDepth: 0,
  defaultModelExpandDepth: 3,
  displayRequestDuration: true,
  showExtensions: false,
  filter: true,
  // No validator, because it would be another host.
  validatorUrl: null,
});
