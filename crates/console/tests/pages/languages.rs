//! The languages of the pages.

use upesi_console::ENGLISH;
use upesi_testsupport::scheme::id;

use crate::common::{Hub, contains, text};
use crate::headers::PAGES;

async fn in_language(hub: &Hub, language: &str, path: &str) -> String {
    hub.send(&format!("accept-language: {language}\r\n"), "GET", path, "").await.body
}

#[tokio::test]
async fn french_page_has_french_words_numbers_and_dates() {
    let hub = Hub::with_dfsps(&["green", "blue"]).await;
    hub.pay(1, "green", "blue", "1250.5").await;
    let page = in_language(&hub, "fr-SN,fr;q=0.9,en;q=0.5", "/console/participants").await;
    assert!(page.contains("<html lang=\"fr\" dir=\"ltr\">"), "{page}");
    contains(&page, &["Situation au 01/04/2031 10:00:00 UTC", "green KES ✓ actif 1 250,50 doit"]);
    let transfer = in_language(&hub, "fr", &format!("/console/transfers/{}", id(1))).await;
    contains(&transfer, &["green paie 1 250,50 KES à blue : exécuté depuis 01/04/2031 10:00:00.000 UTC"]);
    let missing = in_language(&hub, "fr", "/console/participants/purple").await;
    contains(&missing, &["Rien trouvé", "Retour à la vue d'ensemble"]);
    // Programs read headings and numbers of the export, which are the same in every language.
    let csv = in_language(&hub, "fr", "/console/participants?csv=positions").await;
    assert!(
        csv.starts_with("dfsp,currency,state,position,") && csv.contains("\r\ngreen,KES,actif,1250.50,doit,"),
        "{csv}"
    );
}

/// The pseudo-locale changes every word, so English words on its pages are not translated.
#[tokio::test]
async fn every_text_of_every_page_can_be_translated() {
    let hub = Hub::with_dfsps(&["green", "blue"]).await;
    hub.pay(1, "green", "blue", "1250.5").await;
    hub.observe(2, 3, 2, 8);
    let transfer = format!("/console/transfers/{}", id(1));
    let others = [&*transfer, "/console/participants/green", "/console/windows/1", "/console/nothing"];
    // Short words can be part of data.
    let texts = ENGLISH.all().into_iter().filter(|(_, text)| text.len() > 8 && !text.contains('{'));
    let texts: Vec<_> = texts.collect();
    assert!(texts.len() > 200, "{}", texts.len());
    for path in PAGES.into_iter().chain(others) {
        let html = in_language(&hub, "ar-XB", path).await;
        assert!(html.contains("<html lang=\"ar-XB\" dir=\"rtl\">"), "{path}: {html}");
        let page = text(&html);
        for (name, text) in &texts {
            assert!(!page.contains(text), "{path}: {name} is not translated: {page}");
        }
    }
}
