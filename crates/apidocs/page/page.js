// Shows the document that lies beside this page. Nothing is asked of any other host.
"use strict";

// Light or dark, as the reader's system is.
const dark = window.matchMedia("(prefers-color-scheme: dark)");
const follow = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
follow();
dark.addEventListener("change", follow);

const place = document.getElementById("document");

SwaggerUIBundle({
  domNode: place,
  url: "openapi.yaml",
  // The methods that may be tried out from here: none on the FSPIOP port, where browsers cannot send a Date header,
  // and those that change nothing on the admin port.
  supportedSubmitMethods: place.dataset.tryOut ? place.dataset.tryOut.split(" ") : [],
  deepLinking: true,
  docExpansion: "list",
  defaultModelsExpandDepth: 0,
  defaultModelExpandDepth: 3,
  displayRequestDuration: true,
  showExtensions: false,
  filter: true,
  // A validator is another host.
  validatorUrl: null,
});
