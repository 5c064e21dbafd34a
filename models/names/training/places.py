"""Real cities and regions, and how streets are written, by language."""

from __future__ import annotations


def _list(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


CITIES = {
    "en": _list(
        "London,Manchester,Birmingham,Leeds,Glasgow,Edinburgh,Bristol,Liverpool,Cardiff,Belfast,"
        "Dublin,Cork,New York,Los Angeles,Chicago,Houston,Phoenix,Philadelphia,San Antonio,"
        "San Diego,Dallas,Austin,Boston,Seattle,Denver,Miami,Atlanta,Portland,Detroit,Nashville,"
        "Toronto,Vancouver,Montreal,Calgary,Ottawa,Sydney,Melbourne,Brisbane,Perth,Auckland,"
        "Wellington,Mumbai,Delhi,Bangalore,Lagos,Nairobi,Cape Town,Singapore,Hong Kong,Springfield,"
        "Oxford,Cambridge,York,Bath,Washington,St. Louis,Minneapolis,Tampa,Cleveland,Paris,Berlin,"
        "Tokyo,Beijing,Moscow,Dubai,Cairo,Jerusalem,Baghdad,Kabul,Islamabad,Bangkok,Seoul,Jackson,"
        "Madison,Lincoln,Charlotte,Arlington,Florence,Aurora,Salem,Georgetown,Kingston,Bradford"
    ),
    "de": _list(
        "Berlin,Hamburg,München,Köln,Frankfurt am Main,Stuttgart,Düsseldorf,Leipzig,Dortmund,Essen,"
        "Bremen,Dresden,Hannover,Nürnberg,Duisburg,Bochum,Wuppertal,Bielefeld,Bonn,Münster,"
        "Karlsruhe,Mannheim,Augsburg,Wiesbaden,Kiel,Lübeck,Freiburg,Mainz,Erfurt,Rostock,Kassel,"
        "Halle,Ulm,Würzburg,Heidelberg,Darmstadt,Regensburg,Göttingen,Wien,Graz,Linz,Salzburg,"
        "Innsbruck,Zürich,Bern,Basel,Luzern,Genf,Potsdam,Jena,Trier,Passau,Konstanz,Celle,Gera"
    ),
    "fr": _list(
        "Paris,Marseille,Lyon,Toulouse,Nice,Nantes,Strasbourg,Montpellier,Bordeaux,Lille,Rennes,"
        "Reims,Le Havre,Saint-Étienne,Toulon,Grenoble,Dijon,Angers,Nîmes,Clermont-Ferrand,Tours,"
        "Limoges,Amiens,Metz,Besançon,Orléans,Rouen,Mulhouse,Caen,Nancy,Avignon,Poitiers,"
        "La Rochelle,Bruxelles,Liège,Namur,Genève,Lausanne,Montréal,Québec,Dakar,"
        "Abidjan,Tunis,Casablanca,Alger"
    ),
    "es": _list(
        "Madrid,Barcelona,Valencia,Sevilla,Zaragoza,Málaga,Murcia,Palma,Bilbao,Alicante,Córdoba,"
        "Valladolid,Vigo,Gijón,Granada,Vitoria,A Coruña,Elche,Oviedo,Santander,Pamplona,Almería,"
        "Burgos,Salamanca,Huelva,León,Cádiz,Jaén,Toledo,Cuenca,Ciudad de México,Guadalajara,"
        "Monterrey,Bogotá,Medellín,Lima,Santiago,Buenos Aires,Rosario,Montevideo,Quito,Caracas"
    ),
    "it": _list(
        "Roma,Milano,Napoli,Torino,Palermo,Genova,Bologna,Firenze,Bari,Catania,Venezia,Verona,"
        "Messina,Padova,Trieste,Brescia,Parma,Taranto,Prato,Modena,Reggio Calabria,Perugia,Livorno,"
        "Ravenna,Cagliari,Foggia,Rimini,Salerno,Ferrara,Siracusa,Pescara,Bergamo,Vicenza,Trento,"
        "Lecce,Udine,Ancona,Como,Lucca,Pisa,Siena,Mantova,Cremona,L'Aquila,Matera,Lugano"
    ),
    "pt": _list(
        "Lisboa,Porto,Braga,Coimbra,Faro,Aveiro,Setúbal,Évora,Viseu,Leiria,Funchal,Guimarães,"
        "São Paulo,Rio de Janeiro,Brasília,Salvador,Fortaleza,Belo Horizonte,Manaus,Curitiba,"
        "Recife,Porto Alegre,Belém,Goiânia,Campinas,São Luís,Maceió,Natal,Florianópolis,Santos,"
        "Luanda,Maputo,Ribeirão Preto,Uberlândia,Sorocaba,Niterói,Londrina,Joinville,Beja,Bragança"
    ),
    "nl": _list(
        "Amsterdam,Rotterdam,Den Haag,Utrecht,Eindhoven,Groningen,Tilburg,Almere,Breda,Nijmegen,"
        "Enschede,Haarlem,Arnhem,Zaanstad,Amersfoort,Apeldoorn,Zwolle,Leiden,Maastricht,Dordrecht,"
        "Zoetermeer,Deventer,Delft,Alkmaar,Leeuwarden,Venlo,Gouda,Hoorn,Antwerpen,Gent,Brugge,Leuven,"
        "Mechelen,Hasselt,Kortrijk,Oostende,Assen,Middelburg,Roermond,Helmond"
    ),
    "pl": _list(
        "Warszawa,Kraków,Łódź,Wrocław,Poznań,Gdańsk,Szczecin,Bydgoszcz,Lublin,Białystok,Katowice,"
        "Gdynia,Częstochowa,Radom,Toruń,Sosnowiec,Rzeszów,Kielce,Gliwice,Olsztyn,Zabrze,Bielsko-Biała,"
        "Bytom,Zielona Góra,Rybnik,Ruda Śląska,Opole,Tychy,Elbląg,Płock,Tarnów,Koszalin,Kalisz,"
        "Legnica,Słupsk,Jaworzno,Nowy Sącz,Siedlce,Zamość,Zakopane,Krakowie,Warszawie,Gdańsku,Łodzi"
    ),
}
REGIONS = {
    "en": _list(
        "Texas,California,Ontario,Yorkshire,Kent,Queensland,Bavaria,Scotland,Wales,Cornwall,"
        "New England,the Midlands,Georgia,Virginia,Alaska,Kerala,Punjab,Tuscany,Normandy,Alberta"
    ),
    "de": _list(
        "Bayern,Sachsen,Hessen,Niedersachsen,Thüringen,Tirol,Kärnten,Steiermark,Saarland,Schwaben,"
        "Ostfriesland,Allgäu,Ruhrgebiet,Schleswig-Holstein,Brandenburg,Aargau,Wallis"
    ),
    "fr": _list(
        "Bretagne,Normandie,Provence,Alsace,Lorraine,Bourgogne,Auvergne,Occitanie,Picardie,"
        "Île-de-France,Savoie,Wallonie,Corse,Gironde,Finistère,Vendée"
    ),
    "es": _list(
        "Andalucía,Galicia,Cataluña,Asturias,Extremadura,Aragón,La Rioja,Castilla y León,Navarra,"
        "Jalisco,Antioquia,Patagonia,Canarias,País Vasco,Yucatán"
    ),
    "it": _list(
        "Lombardia,Toscana,Sicilia,Sardegna,Puglia,Veneto,Piemonte,Lazio,Umbria,Calabria,Liguria,"
        "Campania,Abruzzo,Molise,Basilicata,Friuli"
    ),
    "pt": _list(
        "Algarve,Alentejo,Minho,Madeira,Açores,Minas Gerais,Bahia,Ceará,Paraná,Santa Catarina,"
        "Pernambuco,Ribatejo,Amazonas,Goiás,Trás-os-Montes"
    ),
    "nl": _list(
        "Friesland,Drenthe,Gelderland,Limburg,Zeeland,Noord-Holland,Noord-Brabant,Overijssel,"
        "Vlaanderen,Flevoland,de Veluwe,de Achterhoek,Twente"
    ),
    "pl": _list(
        "Mazowsze,Małopolska,Śląsk,Podlasie,Pomorze,Wielkopolska,Podkarpacie,Warmia,Mazury,Kujawy,"
        "Lubelszczyzna,Podhale,Dolny Śląsk,Opolszczyzna"
    ),
}
STREETS = {
    "en": _list(
        "Oak,Maple,High,Main,Church,Station,Park,Victoria,Elm,Cedar,Lake,Hill,Washington,Green,King,"
        "Queen,Mill,Second,Fifth,Sunset,River,Baker,Albert,Windsor,Pine,Walnut,Broad,Highland,14th"
    ),
    "de": _list(
        "Haupt,Bahnhof,Garten,Schul,Dorf,Berg,Linden,Ring,Wald,Kirch,Goethe,Schiller,Mozart,Rosen,"
        "Birken,Mühlen,Wiesen,Friedrich,Lessing,Beethoven,Eichen,Post,Markt,Feld,Blumen,Kant"
    ),
    "fr": _list(
        "de la République,Victor Hugo,des Lilas,Pasteur,de la Gare,Jean Jaurès,du Moulin,Molière,"
        "des Écoles,Voltaire,Saint-Michel,de l'Église,Gambetta,de Verdun,des Champs,Zola,du Port"
    ),
    "es": _list(
        "Mayor,de Alcalá,Gran Vía,San Juan,Cervantes,de la Constitución,Real,del Carmen,Goya,Colón,"
        "Santa Ana,Independencia,de la Paz,Juárez,Bolívar,Los Olivos,San Martín,Serrano"
    ),
    "it": _list(
        "Roma,Garibaldi,Mazzini,Dante,Verdi,Cavour,della Repubblica,Marconi,Vittorio Emanuele,"
        "San Marco,dei Mille,Manzoni,Leopardi,Nazionale,XX Settembre,delle Rose,Puccini"
    ),
    "pt": _list(
        "da Liberdade,Augusta,das Flores,de Santa Catarina,do Ouro,25 de Abril,Paulista,Dom Pedro,"
        "da República,Almirante Reis,São João,das Palmeiras,Sete de Setembro,do Comércio,Camões"
    ),
    "nl": _list(
        "Kerk,Dorps,Molen,School,Hoofd,Stations,Wilhelmina,Juliana,Beuken,Eiken,Prinsen,Keizers,"
        "Nieuwe,Berken,Markt,Haven,Kastanje,Linden,Nassau,Oranje"
    ),
    "pl": _list(
        "Polna,Leśna,Słoneczna,Krótka,Szkolna,Ogrodowa,Lipowa,Brzozowa,Łąkowa,Kwiatowa,Kościelna,"
        "Mickiewicza,Sienkiewicza,Kościuszki,Długa,Marszałkowska,Piłsudskiego,3 Maja,Zielona"
    ),
}
STREET_FORMS = {
    "en": (
        "{n} {name} Street", "{n} {name} St", "{n} {name} St.", "{n} {name} Road", "{n} {name} Rd",
        "{n} {name} Avenue", "{n} {name} Ave", "{n} {name} Ave., Apt {k}", "{n} {name} Lane",
        "{n} {name} Drive", "{n} {name} Blvd", "{n} {name} Court, Unit {k}", "{n}{l} {name} Road",
        "Flat {k}, {n} {name} Close", "{n} N {name} Way", "{n} {name} Crescent", "PO Box {n}",
        "{n} West {name} Street Suite {k}", "{n} {name} Terrace",
    ),
    "de": (
        "{name}straße {n}", "{name}str. {n}", "{name}weg {n}{l}", "{name}allee {n}",
        "{name}platz {k}", "{name}gasse {k}/{n}", "{name}-Straße {n}", "Am {name}platz {k}",
        "{name}strasse {n}", "Alte {name}straße {n}", "An der {name} {k}", "{name}ring {n}",
    ),
    "fr": (
        "{n} rue {name}", "{n}, rue {name}", "{n} avenue {name}", "{n} bis rue {name}",
        "{n}, boulevard {name}", "{n} place {name}", "{n} chemin {name}", "{n} impasse {name}",
        "rue {name} {n}", "{n} allée {name}", "{n} quai {name}", "apt {k}, {n} rue {name}",
    ),
    "es": (
        "Calle {name} {n}", "C/ {name}, {n}", "Calle {name}, {n}, {k}º {l}", "Avenida {name} {n}",
        "Avda. {name}, {n}", "Av. {name} {n}", "Plaza {name}, {k}", "Paseo {name} {n}",
        "Carrera {k} # {n}-{k}", "Calle {name} núm. {n}", "calle {name} nº {n}",
        "Camino {name} {n}",
    ),
    "it": (
        "Via {name} {n}", "Via {name}, {n}", "via {name} n. {n}", "Viale {name} {n}",
        "Piazza {name} {k}", "Corso {name}, {n}", "Largo {name} {k}", "Vicolo {name} {k}",
        "Via {name} {n}/{l}", "Strada {name} {n}",
    ),
    "pt": (
        "Rua {name}, {n}", "Rua {name} {n}", "Rua {name}, nº {n}, {k}º Esq.", "Avenida {name}, {n}",
        "Av. {name}, {n}, apto {k}", "Travessa {name} {k}", "Largo {name}, {k}",
        "Praça {name}, {k}",
        "R. {name}, {n}", "Rua {name}, {n} - {k}º Dto",
    ),
    "nl": (
        "{name}straat {n}", "{name}weg {n}", "{name}laan {n}{l}", "{name}gracht {n}",
        "{name}plein {k}", "{name}straat {n} bus {k}", "{name}dijk {n}", "{name}kade {n}",
        "{name}hof {k}", "{name}steeg {k}",
    ),
    "pl": (
        "ul. {name} {n}", "ul. {name} {n}/{k}", "ulica {name} {n} m. {k}", "al. {name} {n}",
        "os. {name} {k}/{n}", "plac {name} {k}", "{name} {n}", "ul. {name} {n}{l}",
        "przy ul. {name} {n}", "aleja {name} {n}",
    ),
}  # fmt: skip
